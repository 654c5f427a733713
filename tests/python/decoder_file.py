"""A small decoder of the llama family: its GGUF file, and its logits by NumPy."""
import pathlib
import struct

import numpy as np

LAYERS, WIDTH, INNER, HEADS, KEY_HEADS, CONTEXT = 2, 64, 96, 4, 2, 24
HEAD, BASE, EPS = WIDTH // HEADS, 100.0, 1e-5
Q4_1, Q8_0 = 3, 8  # ggml's numbers of types
MERGES = [("h", "e"), ("l", "l"), ("Ġ", "he"), ("he", "ll"), ("hell", "o"), ("Ġhe", "ll")]


def letters() -> list[str]:
    """GPT-2's letters of the bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


VOCABULARY = [*letters(), *("".join(pair) for pair in MERGES), "<|end|>", "<|unused|>"]


def stored(random: np.random.Generator, kind: int, n: int, k: int) -> tuple[bytes, np.ndarray]:
    """Blocks of 32 elements and their values."""
    scale = random.uniform(0.5, 1.5, (n, k // 32)).astype(np.float16)
    if kind == Q8_0:
        scale *= np.float16(0.002)
        codes = random.integers(-127, 128, (n, k // 32, 32)).astype(np.int8)
        blocks = np.concatenate([scale[..., None].view(np.uint8), codes.view(np.uint8)], axis=-1)
        return blocks.tobytes(), (codes * scale[..., None].astype(np.float64)).reshape(n, k)
    scale *= np.float16(0.02)
    offset = (scale * np.float16(-7.5)).astype(np.float16)
    codes = random.integers(0, 16, (n, k // 32, 32)).astype(np.uint8)
    packed = codes[..., :16] | codes[..., 16:] << 4
    blocks = np.concatenate([scale[..., None].view(np.uint8), offset[..., None].view(np.uint8), packed],
                            axis=-1)
    values = codes * scale[..., None].astype(np.float64) + offset[..., None]
    return blocks.tobytes(), values.reshape(n, k)


class Decoder:
    """The made model: `write` its file, `logits` of each position of a sequence."""

    def __init__(self):
        random = np.random.default_rng(11)
        self.tensors, self.data = {}, []

        def matrix(name: str, n: int, k: int, kind: int = Q4_1) -> None:
            data, self.tensors[name] = stored(random, kind, n, k)
            self.data.append((f"{name}.weight", (k, n), kind, data))

        def vector(name: str) -> None:
            values = random.uniform(0.5, 1.5, WIDTH).astype(np.float32)
            self.tensors[name] = values.astype(np.float64)
            self.data.append((f"{name}.weight", (WIDTH,), 0, values.tobytes()))

        matrix("token_embd", len(VOCABULARY), WIDTH, Q8_0)
        vector("output_norm")
        for layer in range(LAYERS):
            block = f"blk.{layer}."
            vector(block + "attn_norm")
            vector(block + "ffn_norm")
            for name, n, k in (("attn_q", WIDTH, WIDTH), ("attn_k", KEY_HEADS * HEAD, WIDTH),
                               ("attn_v", KEY_HEADS * HEAD, WIDTH), ("attn_output", WIDTH, WIDTH),
                               ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH),
                               ("ffn_down", WIDTH, INNER)):
                matrix(block + name, n, k)

    def write(self, path: pathlib.Path) -> pathlib.Path:
        def text(value: str) -> bytes:
            return struct.pack("<Q", len(value.encode())) + value.encode()

        def array(kind: int, values: list[bytes]) -> bytes:
            return struct.pack("<IQ", kind, len(values)) + b"".join(values)

        def whole(value: int) -> bytes:
            return struct.pack("<I", value)

        kinds = [3 if token.startswith("<|") else 1 for token in VOCABULARY]
        entries = [("general.architecture", 8, text("llama"))]
        entries += [("llama." + key, 4, whole(value)) for key, value in (
            ("block_count", LAYERS), ("embedding_length", WIDTH), ("feed_forward_length", INNER),
            ("context_length", CONTEXT), ("attention.head_count", HEADS),
            ("attention.head_count_kv", KEY_HEADS))]
        entries += [("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", EPS)),
                    ("llama.rope.freq_base", 6, struct.pack("<f", BASE)),
                    ("tokenizer.ggml.model", 8, text("gpt2")),
                    ("tokenizer.ggml.tokens", 9, array(8, [text(t) for t in VOCABULARY])),
                    ("tokenizer.ggml.token_type", 9, array(5, [whole(kind) for kind in kinds])),
                    ("tokenizer.ggml.merges", 9, array(8, [text(" ".join(m)) for m in MERGES])),
                    ("tokenizer.ggml.eos_token_id", 4, whole(VOCABULARY.index("<|end|>")))]
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.data), len(entries))
        for key, kind, value in entries:
            head += text(key) + whole(kind) + value
        body = b""
        for name, extents, kind, data in self.data:
            body += b"\0" * (-len(body) % 32)
            head += text(name) + whole(len(extents)) + struct.pack(f"<{len(extents)}Q", *extents)
            head += struct.pack("<IQ", kind, len(body))
            body += data
        path.write_bytes(head + b"\0" * (-len(head) % 32) + body)
        return path

    def logits(self, tokens: list[int]) -> np.ndarray:
        """All positions at once, in f64."""
        t, count = self.tensors, len(tokens)

        def norm(x: np.ndarray, name: str) -> np.ndarray:
            return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS) * t[name]

        def turned(x: np.ndarray) -> np.ndarray:
            pairs = x.reshape(count, -1, HEAD // 2, 2)
            angle = np.arange(count)[:, None, None] * BASE ** (-2 * np.arange(HEAD // 2) / HEAD)
            whole = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angle)
            return np.stack([whole.real, whole.imag], axis=-1).reshape(count, -1, HEAD)

        x = t["token_embd"][tokens]
        hidden = np.triu(np.full((count, count), -np.inf), 1)
        for layer in range(LAYERS):
            block = f"blk.{layer}."
            a = norm(x, block + "attn_norm")
            q, k = (turned(a @ t[block + name].T) for name in ("attn_q", "attn_k"))
            v = (a @ t[block + "attn_v"].T).reshape(count, KEY_HEADS, HEAD)
            k, v = (np.repeat(part, HEADS // KEY_HEADS, axis=1) for part in (k, v))
            scores = np.einsum("ihe,jhe->hij", q, k) / np.sqrt(HEAD) + hidden
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            shares /= shares.sum(axis=-1, keepdims=True)
            seen = np.einsum("hij,jhe->ihe", shares, v).reshape(count, WIDTH)
            x = x + seen @ t[block + "attn_output"].T
            f = norm(x, block + "ffn_norm")
            gate = f @ t[block + "ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (f @ t[block + "ffn_up"].T)) @ t[block + "ffn_down"].T
        return norm(x, "output_norm") @ t["token_embd"].T
