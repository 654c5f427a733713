"""Decoders: programs out of a GGUF file that share states, beside NumPy; and the example that generates text."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import decoder_file
import tilewright
from support import main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llm" / "generate.py"
TOKENS = [5, 200, 17, 17, 262, 90, 31, 4]


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


class Decoding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.decoder = decoder_file.Decoder()
        cls.file = cls.decoder.write(cls.path / "made.gguf")
        for tokens in (1, 4):
            tilewright.compile(cls.file, cls.path / f"made-{tokens}.tw", trials=0, threads=1,
                               dims={"tokens": tokens, "context": 24}, db=cls.path / "kernels.db",
                               progress=None)
        cls.wanted = cls.decoder.logits(TOKENS)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def open(self, tokens: int = 1, **options) -> tilewright.Model:
        return tilewright.Model(self.path / f"made-{tokens}.tw", threads=1, log=lambda _: None,
                                **options)

    def check(self, logits: np.ndarray, position: int) -> None:
        wanted = self.wanted[position]
        np.testing.assert_allclose(logits, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())

    def test_tokens_one_by_one(self):
        model = self.open()
        self.assertEqual([port[:3] for port in model.inputs],
                         [("tokens", "i32", (1,)), ("position", "i32", (1,))])
        for _ in range(2):  # position 0 begins anew, whatever the states hold
            for position, token in enumerate(TOKENS):
                self.check(model(i32(token), i32(position)), position)

    def test_chunks_and_tokens_share_states(self):
        model = self.open()
        chunk = self.open(4, states_of=model)
        self.check(chunk(i32(*TOKENS[:4]), i32(0), i32(3)), 3)
        self.check(model(i32(TOKENS[4]), i32(4)), 4)
        self.check(chunk(i32(*TOKENS[5:7], 0, 0), i32(5), i32(1)), 6)
        model.close()  # the states stay with the other model
        self.check(chunk(i32(TOKENS[7], 0, 0, 0), i32(7), i32(0)), 7)

    def test_saved_states(self):
        model = self.open()
        for position, token in enumerate(TOKENS[:4]):
            model(i32(token), i32(position))
        self.assertEqual(sorted(model.states),
                         sorted(f"blk.{n}.{what}" for n in (0, 1) for what in ("keys", "values")))
        saved = {name: state.copy() for name, state in model.states.items()}
        self.assertEqual(saved["blk.0.keys"].shape, (2, 24, 16))
        self.assertTrue(saved["blk.0.keys"][:, :4].all())
        self.assertFalse(saved["blk.0.keys"][:, 4:].any())
        states = model.states
        for state in states.values():
            state[...] = 1
        model(i32(1), i32(0))
        for name, state in model.states.items():
            state[...] = saved[name]
        self.check(model(i32(TOKENS[4]), i32(4)), 4)
        model.close()
        self.assertEqual(states["blk.0.keys"].shape, (2, 24, 16))  # memory that lives as long as arrays of it

    def test_refusals(self):
        model = self.open()
        for wrong in (-1, 24):
            with self.assertRaisesRegex(tilewright.TensorError,
                                        f"input 'position': it is {wrong}; expected 0 to 23"):
                model(i32(1), i32(wrong))
        self.assertFalse(model.states["blk.0.keys"].any())
        chunk = self.open(4)
        with self.assertRaisesRegex(tilewright.TensorError, "it is 21; expected 0 to 20"):
            chunk(i32(1, 2, 3, 4), i32(21), i32(3))
        tilewright.compile(self.file, self.path / "other.tw", trials=0, threads=1,
                           dims={"context": 16}, db=self.path / "kernels.db", progress=None)
        with self.assertRaisesRegex(tilewright.ArgumentError,
                                    r"state 'blk.0.keys' is f32\[2, 16, 16\]; .* one of f32\[2, 24, 16\]"):
            tilewright.Model(self.path / "other.tw", threads=1, log=lambda _: None, states_of=model)
        with self.assertRaisesRegex(tilewright.Error, "--dim batch=2: a decoder has the sizes tokens"):
            tilewright.compile(self.file, self.path / "wrong.tw", dims={"batch": 2}, progress=None)
        with self.assertRaisesRegex(tilewright.Error, "weights of a GGUF file keep their types"):
            tilewright.compile(self.file, self.path / "wrong.tw", precision="bf16", progress=None)

    def test_greedy_text_of_the_example(self):
        prompt = "hello hell"
        done = subprocess.run(
            [sys.executable, EXAMPLE, self.file, prompt, "--tokens", "6", "--context", "24", "--chunk",
             "4", "--trials", "0", "--db", self.path / "kernels.db"], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        vocabulary = decoder_file.VOCABULARY
        tokens = [vocabulary.index(part) for part in ("hello", "Ġhell")]
        letters, text = decoder_file.letters(), b""
        for _ in range(6):
            token = int(np.argmax(self.decoder.logits(tokens)[-1]))
            if vocabulary[token] == "<|end|>":
                break
            tokens.append(token)
            name = vocabulary[token]
            text += name.encode() if name.startswith("<|") else bytes(letters.index(c) for c in name)
        self.assertEqual(done.stdout, prompt.encode() + text)
        self.assertIn(b"2 tokens read", done.stderr)


if __name__ == "__main__":
    main()
