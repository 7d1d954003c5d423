"""`sluice capture --check` on TorchScript modules, good and bad ones for a graph capture."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from schedule_torch_test import PYTHON
from sluice_command import RUN_FAILED, SluiceTest

SCRIPT = pathlib.Path(__file__).with_name("capture_modules.py")
INNER = "layers.1.inner"
STOPS = "stops capture"
WRONG = "silently wrong"

# Of each bad module: the finding that it must have (fault, severity, pass, operator, path of the module, code).
EXPECTED = {
    "item": ("host-sync", STOPS, "forward", "aten::item", INNER, "x.abs().max().item()"),
    "to-host": ("host-sync", STOPS, "forward", "aten::to", INNER, "x.cpu().mean"),
    "flow-on-values": ("value-dependent-flow", WRONG, "forward", "aten::tanh", INNER, "x.tanh()"),
    "equal": ("host-sync", STOPS, "forward", "aten::equal", INNER, "torch.equal("),
    "nonzero": ("dynamic-shape", STOPS, "forward", "aten::nonzero", INNER, "torch.nonzero("),
    "masked-select": ("dynamic-shape", STOPS, "forward", "aten::masked_select", INNER, "torch.masked_select("),
    "boolean-index": ("dynamic-shape", STOPS, "forward", "aten::index", INNER, "x[x > 0].mean()"),
    "boolean-assignment": ("dynamic-shape", STOPS, "forward", "aten::index_put_", INNER, "y[y > 1] ="),
    "unique": ("dynamic-shape", STOPS, "forward", "aten::_unique2", INNER, "torch.unique("),
    "repeat-interleave": (
        "dynamic-shape", STOPS, "forward", "aten::repeat_interleave", INNER, ".repeat_interleave("),
    "host-constant": ("host-tensor", STOPS, "forward", "aten::add", INNER, "x + torch.ones("),
    "host-attribute": ("host-tensor", STOPS, "forward", "aten::mul", INNER, "x * self.scale"),
    "host-copy": ("host-sync", STOPS, "forward", "aten::to", INNER, "torch.tensor([0.5, 2.0]"),
    "slice-assignment": ("host-sync", STOPS, "forward", "aten::to", INNER, None),
    "host-random": ("host-random", WRONG, "forward", "aten::rand", INNER, "torch.rand(1)"),
    "cache": ("escaping-memory", WRONG, "forward", "aten::mul", INNER, "y = x * 2"),
    "list": ("escaping-memory", WRONG, "forward", "aten::sum", INNER, "self.kept.append("),
    "counter": ("state-dependent-flow", WRONG, "forward", "aten::exp", INNER, "x.exp()"),
    "keeps-input": ("input-kept", WRONG, "forward", "aten::select", "first", "self.seen = x[0]"),
    "modifies-input": ("input-modified", WRONG, "forward", "aten::mul_", "first", "mul_(2.0)"),
    "modifies-and-returns-input": ("input-modified", WRONG, "forward", "aten::add_", "first", "x.add_(1.0)"),
}  # fmt: skip
# Bad in other ways too.
ALSO = {
    "flow-on-values": ("host-sync", STOPS, "forward", "aten::item", INNER, "x.sum() > 0"),
    "counter": ("host-state", WRONG, "forward", "prim::SetAttr", INNER, "self.calls += 1"),
    "boolean-index": ("dynamic-shape", STOPS, "backward", "aten::_index_put_impl_", INNER, "x[x > 0].mean()"),
    "to-host": ("host-sync", STOPS, "backward", "aten::to", INNER, "x.cpu().mean"),
}
GOOD = ["mlp", "attention", "embedding", "conv", "dropout", "numbers", "own-device", "in-place", "traced"]


@unittest.skipIf(PYTHON is None, "torch was installed without Python")
class CaptureCheck(SluiceTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.modules = pathlib.Path(folder.name)
        python, environment = PYTHON
        subprocess.run(
            [str(python), "-W", "ignore", str(SCRIPT), str(cls.modules)], env=environment, check=True, timeout=600
        )
        cls.inputs = json.loads((cls.modules / "inputs.json").read_text())
        cls.done = {}
        cls.code = SCRIPT.read_text().splitlines()

    def check(self, name, *options):
        """Runs the check of a module, once for all tests; how it ended and its JSON."""
        if (name, options) not in self.done:
            self.done[name, options] = self.check_now(name, *options)
        return self.done[name, options]

    def check_now(self, name, *options):
        inputs = [word for text in self.inputs[name] for word in ("--input", text)]
        done = self.sluice(
            "capture", self.modules / f"{name}.pt", "--check", *inputs, "--json", "found.json", *options
        )
        self.assertIn(done.returncode, (0, RUN_FAILED), done.stderr)
        found = json.loads((self.folder / "found.json").read_text())
        self.assertEqual(found["capturable"], done.returncode == 0, done.stderr)
        return done, found

    def line_of(self, source):
        """The code at FILE:LINE of a finding."""
        file, line = source.rsplit(":", 1)
        self.assertEqual(pathlib.Path(file).name, SCRIPT.name, source)
        return self.code[int(line) - 1]

    def assert_found(self, found, fault, severity, which, operator, module, code):
        matching = [
            each
            for each in found["findings"]
            if (each["fault"], each["severity"], each["pass"]) == (fault, severity, which)
            and each["operator"] == operator
            and each["module"] == module
        ]
        self.assertEqual(len(matching), 1, json.dumps(found["findings"], indent=1))
        self.assertTrue(matching[0]["what"] and matching[0]["advice"])
        self.assertEqual([name for name in matching[0]["chain"] if "::" in name][0], operator)
        if code is not None:
            self.assertIn(code, self.line_of(matching[0]["source"]))

    def test_good_modules_pass(self):
        for name in GOOD:
            with self.subTest(name):
                done, found = self.check(name)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertEqual({each["severity"] for each in found["findings"]} - {"note"}, set())
                self.assertEqual(found["without_backward"], "")
                self.assertGreater(found["forward_operators"], 0)
                self.assertGreater(found["backward_operators"], 0)

    def test_each_bad_module_is_found_at_its_place(self):
        for expected in (EXPECTED, ALSO):
            for name, finding in expected.items():
                with self.subTest(name):
                    done, found = self.check(name)
                    self.assertEqual(done.returncode, RUN_FAILED)
                    self.assert_found(found, *finding)
                    self.assertRegex(done.stderr, r"\Asluice: cannot be captured: \d+ of the findings stop [^\n]+\n\Z")

    def test_every_module_is_judged(self):
        self.assertEqual({*GOOD, *EXPECTED, "returns-input"}, set(self.inputs))

    def test_findings_of_a_bad_module_lie_in_it(self):
        for name, (*_, module, _) in EXPECTED.items():
            if module != INNER:
                continue
            with self.subTest(name):
                _, found = self.check(name, "--forward-only")
                elsewhere = [each for each in found["findings"] if each["module"] != INNER]
                self.assertEqual(elsewhere, [])

    def test_random_numbers_of_the_device_are_noted(self):
        _, found = self.check("dropout")
        self.assert_found(found, "device-random", "note", "forward", "aten::dropout", INNER, None)

    def test_a_result_that_is_an_input_is_a_warning(self):
        done, found = self.check("returns-input")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assert_found(
            found, "input-returned", "warning", "forward", "aten::transpose", "first", "x.transpose(0, 1)"
        )

    def test_the_text_names_place_cause_and_remedy(self):
        done, _ = self.check("nonzero")
        self.assertIn(f"stops capture: aten::nonzero in {INNER}: dynamic-shape [forward]", done.stdout)
        self.assertRegex(done.stdout, rf"at \S*{SCRIPT.name}:\d+\n")
        self.assertIn("to do: ", done.stdout)

    def test_forward_only_leaves_the_backward_out(self):
        _, found = self.check("boolean-index", "--forward-only")
        self.assertEqual({each["pass"] for each in found["findings"]}, {"forward"})
        self.assertEqual(found["without_backward"], "not asked for")
        self.assertEqual(found["backward_operators"], 0)

    def test_findings_do_not_depend_on_the_seed(self):
        for name in ("item", "attention", "nonzero"):
            with self.subTest(name):
                self.assertEqual(self.check(name)[1]["findings"], self.check(name, "--seed", 7)[1]["findings"])

    def test_a_module_that_throws_on_the_host_fails(self):
        module = self.modules / "mlp.pt"
        done = self.sluice("capture", module, "--check", "--input", "float32[8,5]")
        self.fail_running("the module throws for these inputs: mat1 and mat2 shapes cannot be multiplied", done)
        done = self.sluice("capture", module, "--check", "--input", "int=3")
        self.fail_running("the module throws for these inputs", done)

    def test_bad_arguments_are_refused(self):
        module = self.modules / "mlp.pt"
        (self.folder / "text.pt").write_text("not a module")
        (self.folder / "empty.pt").write_text("")
        good = ("--check", "--input", "float32[8,16]")
        self.refuse("module: missing.pt does not exist", "capture", "missing.pt", *good)
        self.refuse("module: text.pt is not a TorchScript file", "capture", "text.pt", *good)
        self.refuse("module: empty.pt is not a TorchScript file", "capture", "empty.pt", *good)
        self.refuse("is a folder", "capture", self.folder, *good)
        lacking = "slots" if "SLUICE_FAKE_CUDA_DIR" in os.environ else "this build has no CUDA"
        self.refuse(lacking, "capture", module, "--input", "float32[8,16]")
        self.refuse("input: forward(input: Tensor) takes 1, 0 given", "capture", module, "--check")
        self.refuse("takes 1, 2 given", "capture", module, *good, "--input", "int=3")
        for text in ("float33[8,16]", "float32", "float32[8,x]", "float32[8,16", "float32[0]", "int=a", "float32[8]:3"):
            self.refuse("input: ", "capture", module, "--check", "--input", text)
        self.refuse("json", "capture", module, *good, "--json", "missing/found.json")


if __name__ == "__main__":
    unittest.main()
