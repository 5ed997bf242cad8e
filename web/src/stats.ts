document.body.append("stats")
