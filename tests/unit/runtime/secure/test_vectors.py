"""Every primitive against published vectors, so that a wrong parameter cannot hide behind a round trip."""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from taskveil.privacy.integer_sampler import KeyStream
from taskveil.runtime.secure import field, keys, masks, shamir

H = bytes.fromhex


def test_x25519_gives_the_vectors_of_rfc_7748_section_5_2():
    vectors = [
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
        ),
    ]
    for scalar, point, shared in vectors:
        private = X25519PrivateKey.from_private_bytes(H(scalar))
        assert private.exchange(X25519PublicKey.from_public_bytes(H(point))) == H(shared)
        # and our agreement is HKDF of exactly that secret
        agreed = keys.AgreementKey(H(scalar)).agree(H(point), b"round", b"info")
        assert agreed == keys.derive(H(shared), b"round", b"info")


def test_derivation_is_hkdf_sha256_of_rfc_5869_test_case_1():
    derived = keys.derive(H("0b" * 22), H("000102030405060708090a0b0c"), H("f0f1f2f3f4f5f6f7f8f9"))
    assert derived == H("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")


ZERO_KEY_STREAM = (
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
)


def test_masks_are_the_chacha20_key_stream_of_rfc_8439_appendix_a():
    for bits in (8, 16, 32, 64):
        ring = masks.Ring(bits)
        words = masks.expand(bytes(32), 64 // ring.dtype.itemsize, ring)
        assert words.tobytes() == H(ZERO_KEY_STREAM)


def test_integer_noise_reads_the_same_key_stream():
    assert KeyStream(bytes(32)).words(8).astype("<u8").tobytes() == H(ZERO_KEY_STREAM)


def test_sealing_is_chacha20_poly1305_of_rfc_8439_section_2_8_2():
    key, nonce, context = (
        H("".join(f"{i:02x}" for i in range(0x80, 0xA0))),
        H("070000004041424344454647"),
        H("50515253c0c1c2c3c4c5c6c7"),
    )
    text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
    sealed = ChaCha20Poly1305(key).encrypt(nonce, text, context)
    assert sealed[:16] == H("d31a8d34648e60db7b86afbc53ef7ec2")
    assert sealed[-16:] == H("1ae10b594f09e26a7e902ecbd0600691")
    assert keys.seal(key, text, context) == ChaCha20Poly1305(key).encrypt(bytes(12), text, context)
    assert keys.unseal(key, keys.seal(key, text, context), context) == text


def test_signatures_are_ed25519_of_rfc_8032_test_1():
    identity = keys.Identity(H("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert identity.public == H("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    signature = H(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert identity.sign(b"") == signature
    assert keys.verify(identity.public, signature, b"")
    assert not keys.verify(identity.public, signature, b"another message")


def test_shamir_evaluates_and_opens_a_known_polynomial():
    """f(x) = 1234 + 166 x + 94 x^2, small enough to check by hand: f(1..6) = 1494, 1942, 2578, 3402, 4414,
    5614."""
    coefficients = np.array([[1234], [166], [94]], dtype=np.uint64)
    values = shamir.evaluate(coefficients, range(1, 7))
    assert values[:, 0].tolist() == [1494, 1942, 2578, 3402, 4414, 5614]
    for points in ((2, 4, 5), (1, 2, 3), (1, 3, 6)):
        chosen = values[[p - 1 for p in points]]
        assert field.dot(shamir.lagrange_at_zero(points), chosen).tolist() == [1234]
