//! The hash of a server's certificate, to which a login is bound (`tls-server-end-point` of RFC 5929),
//! so that nobody between can pass it on.

use rustls::SupportedCipherSuite;
use rustls::crypto::hash::HashAlgorithm;
use rustls::crypto::ring::ALL_CIPHER_SUITES;

/// The beginnings of the names of algorithms in certificates: RSA's and ECDSA's.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];

/// The hash of a certificate in DER, made as its signature says; none if that is unknown here.
pub(super) fn of(certificate: &[u8]) -> Option<Vec<u8>> {
    let wanted = hash_of(signature(certificate)?)?;
    let suites = ALL_CIPHER_SUITES.iter();
    let mut hashes = suites.filter_map(|suite| match suite {
        SupportedCipherSuite::Tls13(suite) => Some(suite.common.hash_provider),
        SupportedCipherSuite::Tls12(_) => None,
    });
    let hash = hashes.find(|hash| hash.algorithm() == wanted)?;
    Some(hash.hash(certificate).as_ref().to_vec())
}

/// The hash that a signature uses. MD5 and SHA-1 count as SHA-256.
fn hash_of(algorithm: &[u8]) -> Option<HashAlgorithm> {
    let rsa = algorithm.strip_prefix(RSA);
    let ecdsa = algorithm.strip_prefix(ECDSA);
    match (rsa, ecdsa) {
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => Some(HashAlgorithm::SHA256),
        (Some([12]), _) | (_, Some([3, 3])) => Some(HashAlgorithm::SHA384),
        _ => None,
    }
}

/// The algorithm of a certificate's signature: its second part, behind what is signed.
fn signature(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate)?;
    let (_, behind) = element(certificate)?;
    let (algorithm, _) = element(behind)?;
    Some(element(algorithm)?.0)
}

/// The content of the first element, and what follows it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.get(1..)?.split_first()?;
    let (len, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let add = |len: usize, digit: &u8| len.checked_mul(256)?.checked_add(usize::from(*digit));
        (digits.iter().try_fold(0, add)?, rest)
    };
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_names_the_hash() {
        let mut certificate = vec![0x30, 0x81, 0x85];
        certificate.extend([0x30, 0x78]);
        certificate.extend([0; 0x78]);
        certificate.extend([0x30, 9, 6, 7]);
        certificate.extend(ECDSA);
        certificate.push(3);
        assert_eq!(signature(&certificate).map(hash_of), Some(None));
        assert_eq!(of(&certificate), None);
        assert_eq!(hash_of(&[RSA, &[11]].concat()), Some(HashAlgorithm::SHA256));
        let ecdsa = [ECDSA, &[3, 3]].concat();
        assert_eq!(hash_of(&ecdsa), Some(HashAlgorithm::SHA384));
        for end in 0..certificate.len() {
            assert_eq!(of(&certificate[..end]), None);
        }
    }
}
