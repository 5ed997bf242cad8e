/* Writes each line of a file to a log and then to stdout, with one call for each. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int put(int to, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t done = write(to, bytes, count);
        if (done <= 0) return 0;
        bytes += done;
        count -= (size_t)done;
    }
    return 1;
}

int main(int argc, char **argv) {
    FILE *from = argc < 4 ? NULL : fopen(argv[2], "r");
    int log = from ? open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    if (log < 0) return 1;
    while ((length = getline(&line, &room, from)) > 0)
        if (!put(log, line, (size_t)length) || !put(1, line, (size_t)length)) return 1;
    return 0;
}
