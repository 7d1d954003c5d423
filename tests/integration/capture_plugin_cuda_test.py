"""`sluice capture` of stages in plug-ins, and of what is wrong with them, on the fake device.

What a failed capture leaves on the device, the fake reports: the command then ends with another status.
"""

import json
import os
import pathlib
import pty
import subprocess
import unittest
import unittest.mock

from sluice_command import BINARY, RUN_FAILED, SluiceTest

PLUGINS = pathlib.Path(os.environ["SLUICE_CAPTURE_PLUGINS_DIR"])
FAKE = os.environ["SLUICE_FAKE_CUDA_DIR"]

OUT_OF_MEMORY = 2
OUT_OF_RESOURCES = 701


def plugin(name):
    return PLUGINS / f"lib{name}.so"


class CaptureTest(SluiceTest):
    def setUp(self):
        super().setUp()
        self.set_environment(
            LD_LIBRARY_PATH=f"{FAKE}:{os.environ.get('LD_LIBRARY_PATH', '')}", FAKECUDA_LEAKS="1"
        )

    def set_environment(self, **variables):
        patch = unittest.mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def capture(self, name, *arguments, slots=2, output="captured"):
        given = ("--plugin-args", *arguments) if arguments else ()
        return self.sluice("capture", "--plugin", plugin(name), *given, "--slots", slots, "--output", output)

    def manifest(self, folder="captured"):
        return json.loads((self.folder / folder / "manifest.json").read_text())


class Capture(CaptureTest):
    def test_every_pass_and_slot_is_captured_and_verified(self):
        done = self.capture("diagonal_layers", "layers=12", "rows=3", "width=32", slots=3)
        self.assertEqual(done.returncode, 0, done.stderr)
        manifest = self.manifest()
        tasks = [(task["chunk"], task["pass"], task["whole"], task["slot"]) for task in manifest["tasks"]]
        self.assertEqual(
            tasks, [(0, "F", False, slot) for slot in range(3)] + [(0, "B", True, slot) for slot in range(3)]
        )
        for task in manifest["tasks"]:
            self.assertEqual(task["verification"]["max_abs_error"], 0)
            self.assertEqual(task["verification"]["bytes_different"], 0)
            self.assertTrue(task["verification"]["deterministic"])
            self.assertEqual(task["shapes"][0], {"type": "float32", "extents": [3, 32]})
            # A kernel a layer and a copy, with a mark before and after; twice that in a whole backward.
            kernels = 12 + 2 if task["pass"] == "F" else 24 + 2
            nodes = {"kernels": kernels, "copies": 1, "fills": 0, "host_functions": 0, "allocations": 0, "others": 0}
            self.assertEqual(task["nodes"], nodes)
        self.assertEqual(manifest["slots"], 3)
        self.assertIn("| 0     | F         | float32[3, 32] ", done.stdout)
        self.assertIn("| 0     | B (whole) | float32[3, 32] float32[3, 32] | 3      | 27    | 26/1/0/0 ", done.stdout)
        self.assertIn("captured 6/6", done.stderr)

    def test_each_graph_has_a_dot_file(self):
        self.assertEqual(self.capture("diagonal_layers", "split=1").returncode, 0)
        names = {f"chunk0_{letter}_slot{slot}.dot" for letter in "FBW" for slot in range(2)}
        self.assertEqual({path.name for path in (self.folder / "captured").glob("*.dot")}, names)
        for name in names:
            text = (self.folder / "captured" / name).read_text()
            self.assertRegex(text, r"(?s)\Adigraph .*->.*\}\s*\Z")

    def test_a_folder_may_be_used_again(self):
        for slots in (2, 1):
            self.assertEqual(self.capture("diagonal_layers", slots=slots).returncode, 0)
            self.assertEqual(self.manifest()["slots"], slots)

    def test_drawings_of_an_earlier_capture_do_not_stay(self):
        self.assertEqual(self.capture("diagonal_layers", "split=1", slots=3).returncode, 0)
        captured = self.folder / "captured"
        mine = {"notes.dot", "chunk0_F_slot0.svg", "my_chunk0_F_slot7.dot", "chunk0_X_slot0.dot"}
        for name in mine:
            (captured / name).write_text("mine")
        (captured / "chunk9_F_slot0.dot").mkdir()
        self.assertEqual(self.capture("diagonal_layers", slots=1).returncode, 0)
        drawings = {"chunk0_F_slot0.dot", "chunk0_B_whole_slot0.dot"}
        self.assertEqual(
            {path.name for path in captured.iterdir()}, mine | drawings | {"manifest.json", "chunk9_F_slot0.dot"}
        )

    def test_the_split_of_the_example_has_a_value(self):
        for value, passes in (("0", {"F", "B"}), ("1", {"F", "B", "W"})):
            self.assertEqual(self.capture("diagonal_layers", f"split={value}").returncode, 0)
            self.assertEqual({task["pass"] for task in self.manifest()["tasks"]}, passes)

    def test_progress_is_redrawn_in_place_on_a_terminal(self):
        ours, theirs = pty.openpty()
        command = [BINARY, "capture", "--plugin", plugin("diagonal_layers"), "--slots", "2", "--output", "captured"]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=theirs, timeout=100)
        os.close(theirs)
        shown = os.read(ours, 1 << 16).decode()
        os.close(ours)
        self.assertEqual(done.returncode, 0, shown)
        lines = [line.split("\r\x1b[K") for line in shown.split("\r\n")]
        self.assertEqual([len(line) for line in lines], [5, 5, 1], shown)
        for redrawn, last in zip(lines, ("4/4  B in slot 1", "4/4  chunk0_B_whole_slot1.dot")):
            self.assertIn("########################", redrawn[-1])
            self.assertTrue(redrawn[-1].endswith(last), shown)
        self.assertNotIn(b"\x1b", done.stdout)


class Explain(CaptureTest):
    def setUp(self):
        super().setUp()
        self.assertEqual(self.capture("diagonal_layers").returncode, 0)
        # Explaining needs no device.
        self.set_environment(FAKECUDA_DRIVER="0")

    def explain(self, *arguments):
        return self.succeed("capture", "--explain", "captured/manifest.json", *arguments)

    def test_nodes_memory_and_launch_cost_are_told(self):
        text = self.explain()
        self.assertIn("4 graphs of 60 nodes, 11 to 19 each", text)
        self.assertRegex(text, r"F of chunk 0 +2 +11 +2\.5 to 4\.2 ")
        self.assertIn("NVIDIA's published figures", text)
        self.assertIn("memory: 2 slots of 20.0 KiB", text)
        self.assertNotIn("limit", text)

    def test_launch_costs_may_be_ones_own(self):
        text = self.explain("--launch-us", "3", "--launch-node-us", "0.1")
        self.assertRegex(text, r"F of chunk 0 +2 +11 +4\.1 to 4\.1 ")
        self.assertIn("given with --launch-us", text)
        self.assertNotIn("NVIDIA", text)

    def test_the_limit_that_fits_is_told(self):
        self.assertIn("in 1.0 MiB: a limit of 51 fits", self.explain("--memory", "1MiB"))
        self.assertIn("no limit fits", self.explain("--memory", "20000B"))

    def test_no_limit_is_told_of_slots_that_are_not_all(self):
        self.set_environment(FAKECUDA_DRIVER="13000")
        done = self.capture("faulty_stage", "fault=outside", output="outside")
        self.assertEqual(done.returncode, 0, done.stderr)
        uncounted = "the memory that 1 of 1 chunks saves outside the slots is not counted"
        self.assertIn(f"in all; {uncounted}\n", done.stdout)
        self.assertEqual(self.manifest("outside")["saves_outside_slot"], [True])
        text = self.succeed("capture", "--explain", "outside/manifest.json", "--memory", "1MiB")
        self.assertIn(f"in 1.0 MiB: no limit can be told, for {uncounted}\n", text)
        self.assertNotIn("fits", text)

    def test_a_manifest_of_an_earlier_version_is_explained(self):
        manifest = self.manifest()
        self.assertEqual(manifest.pop("saves_outside_slot"), [False])
        (self.folder / "captured" / "manifest.json").write_text(json.dumps(manifest))
        self.assertIn("in 1.0 MiB: a limit of 51 fits", self.explain("--memory", "1MiB"))

    def test_what_is_no_manifest_is_refused(self):
        (self.folder / "broken.json").write_text('{"format": "sluice-manifest"')
        (self.folder / "other.json").write_text('{"format": "something"}')
        for name in ("broken.json", "other.json"):
            self.refuse("manifest" if name == "broken.json" else "format", "capture", "--explain", name)
        self.refuse("explain", "capture", "--explain", "missing.json")
        manifest = self.manifest()
        del manifest["tasks"][3]["nodes"]["kernels"]
        (self.folder / "broken.json").write_text(json.dumps(manifest))
        self.refuse("tasks[3].nodes.kernels", "capture", "--explain", "broken.json")

    def test_sizes_and_costs_are_checked(self):
        manifest = "captured/manifest.json"
        self.refuse("memory", "capture", "--explain", manifest, "--memory", "much")
        self.refuse("launch-us", "capture", "--explain", manifest, "--launch-us", "-1")
        self.refuse("launch-node-us", "capture", "--explain", manifest, "--launch-node-us", "1")
        for value in ("nan", "-nan", "inf", "1e400"):
            self.refuse("launch-us", "capture", "--explain", manifest, f"--launch-us={value}")
            given = ("--launch-us", "1", f"--launch-node-us={value}")
            self.refuse("launch-node-us", "capture", "--explain", manifest, *given)


class BadPlugins(CaptureTest):
    def refuse_plugin(self, cause, name, *arguments):
        """Named, with the file, and why; nothing was written."""
        done = self.capture(name, *arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertTrue(done.stderr.startswith(f"sluice: plugin: {plugin(name)} "), done.stderr)
        self.assertIn(cause, done.stderr)
        self.assertEqual(self.files(), [])

    def test_what_cannot_be_loaded(self):
        (self.folder / "text.so").write_text("no library")
        for path, cause in (
            ("text.so", "cannot be loaded"),
            ("missing.so", "is not a file"),
            (".", "is not a file"),
            ("a" * 300, "cannot be looked at: File name too long"),
        ):
            self.refuse(f"plugin: {path} {cause}", "capture", "--plugin", path, "--slots", 1, "--output", "out")

    def test_no_function(self):
        self.refuse_plugin("has no function sluice_capture_targets", "no_entry")

    def test_another_version(self):
        for other, cause in (
            ("interface", "is for version 2 of the plug-in interface, and this program has version 1"),
            ("cuda", "was built with CUDA"),
            ("layout", "lays out its objects otherwise"),
        ):
            self.set_environment(OTHER=other)
            self.refuse_plugin(cause, "other_version")

    def test_a_function_that_throws_or_answers_nonsense(self):
        self.refuse_plugin("throws out of sluice_capture_targets: not caught", "raw_entry")
        self.set_environment(ANSWER="9")
        self.refuse_plugin("answers 9, which means nothing", "raw_entry")

    def test_targets_that_cannot_be_made(self):
        self.refuse_plugin("cannot make its targets: the weights are missing", "faulty_stage", "fault=making")
        self.refuse_plugin("an exception that is no std::exception", "faulty_stage", "fault=number")
        self.refuse_plugin("has nothing to capture", "faulty_stage", "fault=nothing")

    def test_arguments_that_the_example_does_not_take(self):
        for name in ("layers", "rows", "width"):
            for value in ("0", "-1", "16385", "4x", "4.5", " 4", "+4", "", "99999999999999999999"):
                refused = f"{name} must be a whole number from 1 to 16384, not '{value}'"
                self.refuse_plugin(refused, "diagonal_layers", f"{name}={value}")
        for value in ("2", "yes", ""):
            refused = f"split must be a whole number from 0 to 1, not '{value}'"
            self.refuse_plugin(refused, "diagonal_layers", f"split={value}")
        self.refuse_plugin("'widht' is no argument", "diagonal_layers", "widht=8")

    def test_a_target_without_code(self):
        done = self.capture("faulty_stage", "fault=empty")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "sluice: targets: the layer has no code\n")


class BadStages(CaptureTest):
    def fail_capture(self, causes, *arguments, slots=2):
        """One line that names the step, the task and the target; nothing was written or left on the device."""
        done = self.capture("faulty_stage", *arguments, slots=slots)
        for cause in causes:
            self.fail_running(cause, done)
        self.assertNotIn("fakecuda", done.stderr)
        self.assertEqual(self.files(), [])

    def test_the_stage_itself_is_fine(self):
        self.assertEqual(self.capture("faulty_stage").returncode, 0)

    def test_waiting_for_the_device(self):
        self.fail_capture(
            ["capturing F(chunk 0, slot 0): the layer: ", "waits for the device", "move that out of the pass"],
            "fault=syncs",
        )

    def test_allocating(self):
        self.fail_capture(["capturing F(chunk 0, slot 0)", "allocating for a layer", "cudaMalloc"], "fault=allocates")

    def test_throwing(self):
        self.fail_capture(["warming up F(chunk 0, slot 0): the layer: no such layer"], "fault=throws")
        self.fail_capture(["the layer does not say what memory it needs: the size is not known"], "fault=memory")

    def test_a_replay_that_is_wrong(self):
        self.fail_capture(
            ["verifying F(chunk 0, slot 0): the layer: a replay differs", "256 bytes", "prepare_task"], "fault=bakes"
        )

    def test_too_little_memory_for_the_slots(self):
        self.set_environment(FAKECUDA_MEMORY_MB="64")
        self.fail_capture(
            ["8 slots of stage 0 take 160000000 bytes of device memory", "a limit of 3 would fit"],
            "saved=20000000", slots=8,
        )  # fmt: skip

    def test_memory_that_runs_out_in_the_capture(self):
        self.set_environment(FAKECUDA_FAIL=f"cudaGraphInstantiate:2:{OUT_OF_MEMORY}")
        self.fail_capture(["instantiating B(chunk 0, slot 0, whole)", "device memory ran out: lower the limit"])

    def test_a_graph_that_is_not_launched(self):
        self.set_environment(FAKECUDA_FAIL=f"cudaGraphLaunch:2:{OUT_OF_RESOURCES}")
        self.fail_capture(["verifying B(chunk 0, slot 0, whole)", "cudaErrorLaunchOutOfResources"])


class BadDevices(CaptureTest):
    def refuse_device(self, *causes):
        done = self.capture("diagonal_layers")
        self.assertEqual(done.returncode, 2, done.stderr)
        for cause in ("sluice: device: ", *causes):
            self.assertIn(cause, done.stderr)
        self.assertEqual(self.files(), [])

    def test_no_driver(self):
        self.set_environment(FAKECUDA_DRIVER="0")
        self.refuse_device("there is no NVIDIA driver: install one")

    def test_a_driver_that_is_too_old(self):
        self.set_environment(FAKECUDA_DRIVER="12040")
        self.refuse_device("knows CUDA up to 12.4", "update the driver")

    def test_no_such_device(self):
        plugin_path = plugin("diagonal_layers")
        self.refuse("device", "capture", "--plugin", plugin_path, "--slots", 1, "--output", "out", "--device", 3)


class BadUsage(CaptureTest):
    def test_options_that_do_not_go_together(self):
        stage = plugin("diagonal_layers")
        for field, arguments in (
            ("module", []),
            ("slots", ["--plugin", stage, "--output", "out"]),
            ("output", ["--plugin", stage, "--slots", 2]),
            ("slots", ["--plugin", stage, "--slots", 0, "--output", "out"]),
            ("plugin", ["module.pt", "--plugin", stage, "--slots", 2, "--output", "out"]),
            ("plugin", ["--check", "--plugin", stage]),
            ("module", ["--check"]),
            ("split", ["--plugin", stage, "--split", "--slots", 2, "--output", "out"]),
            ("memory", ["--plugin", stage, "--slots", 2, "--output", "out", "--memory", "1GiB"]),
            ("slots", ["--explain", "manifest.json", "--slots", 2]),
            ("module", ["module.pt", "--explain", "manifest.json"]),
            *((option, ["module.pt", "--check", f"--{option}", 1]) for option in ("device", "warm-ups", "tolerance")),
            *(
                (option, ["--explain", "manifest.json", f"--{option}", 1])
                for option in ("device", "warm-ups", "tolerance", "seed")
            ),
            ("not in range 0 to 1023", ["--plugin", stage, "--slots", 2, "--output", "out", "--device", "-1"]),
            ("not in range 0 to 1023", ["--plugin", stage, "--slots", 2, "--output", "out", "--device", 1024]),
            *(
                ("tolerance", ["--plugin", stage, "--slots", 2, "--output", "out", f"--tolerance={value}"])
                for value in ("nan", "-nan", "inf", "1.5")
            ),
            ("plugin-args", ["--plugin", stage, "--plugin-args", "width", "--slots", 2, "--output", "out"]),
            ("plugin-args", ["--plugin", stage, "--plugin-args", "a=1", "a=2", "--slots", 2, "--output", "out"]),
            ("plugin-args", ["--plugin", stage, "--plugin-args", "=1", "--slots", 2, "--output", "out"]),
        ):
            with self.subTest(field, arguments=arguments):
                self.refuse(field, "capture", *arguments)

    def test_a_build_says_what_it_lacks_for_a_torchscript_file(self):
        (self.folder / "module.pt").write_text("")
        self.refuse("module", "capture", "module.pt", "--slots", 1, "--output", "out")

    def test_folders_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        for folder in ("file", "missing/folder", "file/folder", "a" * 300, "a/" * 4000):
            with self.subTest(folder):
                stage = plugin("diagonal_layers")
                self.refuse("output", "capture", "--plugin", stage, "--slots", 1, "--output", folder)


if __name__ == "__main__":
    unittest.main()
