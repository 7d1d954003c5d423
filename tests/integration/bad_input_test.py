"""What `sluice` refuses before anything starts, and what it reports when a run fails. Needs no LibTorch."""

import os
import shutil
import subprocess
import unittest

from sluice_command import BINARY, RUN_FAILED, SluiceTest

EMULATE = ["--emulate", "f=1ms,b=2ms,w=1ms", "--stages", 2, "--microbatches", 4]
TRAIN = ["train", *EMULATE, "--steps", 1]
COMPARE = ["compare", *EMULATE, "--iterations", 1]


class Success(SluiceTest):
    def test_help(self):
        self.assertIn("train", self.succeed("--help"))
        self.assertIn("--microbatches", self.succeed("train", "--help"))
        self.assertIn("--methods", self.succeed("compare", "--help"))

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"\A\d+\.\d+\.\d+\n\Z")

    def test_the_last_of_a_repeated_option_counts(self):
        self.assertEqual(self.results(*TRAIN, "--seed", 5, "--seed", 6)["config"]["seed"], 6)

    def test_an_existing_output_is_replaced_and_nothing_else_is_left(self):
        (self.folder / "results.json").write_text("old")
        self.assertEqual(self.results(*TRAIN)["config"]["stages"], 2)
        self.assertEqual(self.files(), ["results.json"])


class CommandLine(SluiceTest):
    def test_without_a_subcommand(self):
        self.refuse("subcommand")
        self.refuse("'frobnicate' is not a command", "frobnicate")

    def test_unknown_options_and_arguments(self):
        self.refuse("--nope", *TRAIN, "--nope")
        self.refuse("--steps", *COMPARE, "--steps", 2)
        self.refuse("--methods", *TRAIN, "--methods", "bf")
        self.refuse("extra", *TRAIN, "extra")

    def test_an_option_without_its_value(self):
        self.refuse("stages", *TRAIN, "--stages")

    def test_empty_values(self):
        for option in ("hint", "schedule", "emulate", "jitter", "text", "config", "json", "timeline", "trace",
                       "decisions", "record", "stages", "seed", "rules", "accumulate"):  # fmt: skip
            with self.subTest(option):
                self.refuse(option, *TRAIN, f"--{option}", "")
        self.refuse("methods", *COMPARE, "--methods", "")
        self.refuse("methods", *COMPARE, "--methods", ",")

    def test_an_argument_of_several_lines_is_reported_in_one(self):
        self.refuse("hint", *TRAIN, "--hint", "b\nf")
        self.refuse("stages", *TRAIN, "--stages", "2\n3")
        self.refuse("argument", *TRAIN, "more\nand\r\nmore")
        self.refuse("json", *TRAIN, "--json", "no\nfolder/out.json")

    def test_an_argument_that_is_not_text(self):
        self.refuse("hint", *TRAIN, "--hint", os.fsdecode(b"\xff\xfe"))


class Numbers(SluiceTest):
    # The option, and values that it does not take.
    BELOW_ONE = ("stages", "chunks-per-stage", "microbatches", "limit", "launch-ahead", "steps")
    COUNTS = (*BELOW_ONE, "seed", "eval-every", "layers", "width", "heads", "context", "micro-batch-size")
    REALS = ("lr", "weight-decay", "clip", "dropout", "stall-timeout")

    def test_zero(self):
        for option in self.BELOW_ONE:
            with self.subTest(option):
                self.refuse(option, *TRAIN, f"--{option}", 0)
        self.refuse("iterations", *COMPARE, "--iterations", 0)
        self.refuse("stall-timeout", *TRAIN, "--stall-timeout", 0)

    def test_what_is_not_a_count(self):
        for option in self.COUNTS:
            for value in ("-1", "1.5", "99999999999999999999999"):
                with self.subTest(option, value=value):
                    self.refuse(option, *TRAIN, f"--{option}={value}")
        for value in ("-1", "1.5", "99999999999999999999999"):
            self.refuse("iterations", *COMPARE, f"--iterations={value}")
        for value in ("x", "4x", "nan", "4 2", "+"):
            self.refuse("stages", *TRAIN, f"--stages={value}")
            self.refuse("seed", *TRAIN, f"--seed={value}")

    def test_what_is_not_a_number(self):
        for option in self.REALS:
            with self.subTest(option):
                self.refuse(option, *TRAIN, f"--{option}=x")
        for value in ("1..2", "3e", "0.1,0.2", "0.1 "):
            self.refuse("lr", *TRAIN, f"--lr={value}")

    def test_huge_counts(self):
        self.refuse("stages", *TRAIN, "--stages", 4_000_000_000)
        self.refuse("chunks", *TRAIN, "--chunks-per-stage", 4_000_000_000)
        self.refuse("microbatches", *TRAIN, "--microbatches", 4_000_000_000)
        self.refuse("microbatches", *TRAIN, "--microbatches", 2**32)
        self.refuse("launch-ahead", *TRAIN, "--launch-ahead", 4_000_000_000)
        self.refuse("stall-timeout", *TRAIN, "--stall-timeout", "1e30")
        self.refuse("stall-timeout", *TRAIN, "--stall-timeout", "nan")


class Methods(SluiceTest):
    def test_unknown_names(self):
        for name in ("nope", "BF", "bf ", "2f2b", "hint:bf"):
            self.refuse("hint", *TRAIN, "--hint", name)
        for name in ("nope", "bf", "ZB-H1", "2f2b"):
            self.refuse("schedule", *TRAIN, "--schedule", name)
        self.refuse("methods", *COMPARE, "--methods", "bf,nope")
        self.refuse("methods", *COMPARE, "--methods", "bf,1f1b,bf")
        self.refuse("rules", *TRAIN, "--rules", "nope")
        self.refuse("accumulate", *TRAIN, "--accumulate", "nope")

    def test_more_than_one_method_to_train_with(self):
        for methods in (
            ["--hint", "bf", "--schedule", "1f1b"],
            ["--hint", "bf", "--no-pipeline"],
            ["--schedule", "gpipe", "--no-pipeline"],
            ["--hint", "bf", "--schedule", "1f1b", "--no-pipeline"],
        ):
            self.refuse("hint", *TRAIN, *methods)

    def test_settings_that_a_schedule_cannot_have(self):
        chunks = ["--chunks-per-stage", 2]
        self.refuse("schedule", *TRAIN, "--schedule", "1f1b", *chunks)
        self.refuse("schedule", *TRAIN, "--schedule", "zb-h1", *chunks)

    def test_what_emulated_devices_cannot_do(self):
        self.refuse("emulate", *TRAIN, "--no-pipeline")
        self.refuse("eval-every", *TRAIN, "--eval-every", 1)

    def test_limits_too_small(self):
        self.refuse("limit", *TRAIN, "--chunks-per-stage", 2, "--limit", 1)
        self.refuse("limit", *TRAIN, "--schedule", "gpipe", "--limit", 3)
        self.refuse("limit", *TRAIN, "--schedule", "1f1b", "--limit", 1)
        self.refuse("limit", *COMPARE, "--methods", "bf,gpipe", "--limit", 3)


class Models(SluiceTest):
    def test_malformed_jitter(self):
        for text in (
            "j4", "J0", "j", "j00", "tail", "tail:", "tail:0.3", "tail:,", "tail:0.3,", "tail:,5", "tail:x,5",
            "tail:0.3,x", "tail:1.5,5", "tail:-0.1,5", "tail:0.3,-5", "tail:0.3,5,6", "tail:nan,5",
            "tail:0.3,inf", "tail:0.3,1e12", "tail:0.3;5", "tail:0.3,5ms", " j0",
        ):  # fmt: skip
            with self.subTest(text):
                self.refuse("jitter", *TRAIN, "--jitter", text)
        self.refuse("jitter", *COMPARE, "--jitter", "j4")

    def test_malformed_emulate(self):
        for text in (
            "f", "f=", "f=1ms", "b=1ms", "f=1ms,b", "f=1ms,b=", "f=1,b=2", "f=1ms,b=2m", "f=1ms,b=2 ms",
            "f=x,b=2ms", "f=-1ms,b=2ms", "f=0ms,b=2ms", "f=1ms,b=2ms,", ",f=1ms,b=2ms", "f=1ms,,b=2ms",
            "f=1ms,b=2ms,w=2ms", "f=1ms,b=2ms,w=3ms", "f=1ms,f=1ms,b=2ms", "f=1ms,b=2ms,q=1ms",
            "f=1ms,b=2ms,sigma=-1", "f=1ms,b=2ms,sigma=x", "f=1ms,b=2ms,sigma=3", "f=1ms,b=2ms,sigma=1ms",
            "f=nan,b=2ms", "f=infs,b=2ms", "f=1e400ms,b=2ms", "f=1e9s,b=2ms", "f=1ms;b=2ms", "f=1ms b=2ms",
        ):  # fmt: skip
            with self.subTest(text):
                self.refuse("emulate", *TRAIN, "--emulate", text)


class Outputs(SluiceTest):
    OPTIONS = ("json", "timeline", "trace", "decisions")

    def test_paths_that_cannot_be_written(self):
        (self.folder / "folder").mkdir()
        (self.folder / "file").touch()
        for option in self.OPTIONS:
            for path in ("missing/out", "folder", "folder/", "file/out", "/proc/out"):
                with self.subTest(option, path=path):
                    self.refuse(option, *TRAIN, f"--{option}", path)
            self.refuse(option, *COMPARE, f"--{option}", "missing/out")

    def test_a_bad_path_spares_the_good_ones(self):
        (self.folder / "good.json").write_text("old")
        good = ["--json", "good.json", "--timeline", "new.html"]
        self.refuse("trace", *TRAIN, *good, "--trace", "missing/out")
        self.assertEqual((self.folder / "good.json").read_text(), "old")


class Config(SluiceTest):
    def write(self, text):
        (self.folder / "run.toml").write_text(text)
        return ["--config", "run.toml"]

    def test_what_is_not_a_file(self):
        self.refuse("config", *TRAIN, "--config", "missing.toml")
        (self.folder / "folder").mkdir()
        self.refuse("config", *TRAIN, "--config", "folder")

    def test_a_syntax_error_is_located(self):
        for text in ("seed = 1\nlimit = = 2\n", "seed = 1\nlimit = \n", 'seed = 1\nhint = "bf\n',
                     "seed = 1\nlimit 3\n", "seed = 1\nseed = 2\n"):  # fmt: skip
            with self.subTest(text):
                self.refuse("config: run.toml, line 2", *TRAIN, *self.write(text))

    def test_unknown_keys(self):
        self.refuse("stagse", *TRAIN, *self.write("stagse = 2\n"))
        self.refuse("train", *TRAIN, *self.write("[train]\nseed = 2\n"))
        self.refuse("config", *TRAIN, *self.write('config = "other.toml"\n'))
        self.refuse("help", *TRAIN, *self.write("help = true\n"))
        self.refuse("steps", *COMPARE, *self.write("steps = 2\n"))

    def test_values_of_a_wrong_type(self):
        for key, value in (
            ("limit", '"many"'), ("limit", "[2, 3]"), ("limit", "[2]"), ("limit", "-2"), ("limit", "2.5"),
            ("limit", "true"), ("limit", "{ a = 1 }"), ("limit", "1979-05-27"), ("seed", "-1"),
            ("eval-every", "-1"), ("lr", '"fast"'), ("hint", "3"), ("hint", '["bf", "fb"]'),
            ("hint", '""'), ("no-pipeline", '"perhaps"'), ("json", '""'),
        ):  # fmt: skip
            with self.subTest(key, value=value):
                self.refuse(key, *TRAIN, *self.write(f"{key} = {value}\n"))
        self.refuse("methods", *COMPARE, *self.write('methods = ["bf", "nope"]\n'))
        self.refuse("methods", *COMPARE, *self.write('methods = ["bf", [1, 2]]\n'))

    def test_values_out_of_range(self):
        self.refuse("limit", *TRAIN, *self.write("limit = 0\n"))
        self.refuse("limit", *TRAIN, *self.write('schedule = "gpipe"\nlimit = 2\n'))
        self.refuse("hint", *TRAIN, *self.write('hint = "nope"\n'))
        self.refuse("hint", *TRAIN, *self.write('hint = "bf"\nschedule = "1f1b"\n'))

    def test_a_file_gives_what_the_command_line_does_not(self):
        file = self.write('limit = 2\nseed = 9\njitter = "j1"\nno-pipeline = false\nhint = "bfw"\n')
        config = self.results(*TRAIN, *file, "--seed", 8)["config"]
        expected = {"limit": 2, "seed": 8, "jitter": "j1", "method": "bfw", "stages": 2}
        self.assertEqual({key: config[key] for key in expected}, expected)

    def test_a_list_of_methods(self):
        file = self.write('methods = ["bf", "gpipe"]\n')
        methods = self.results(*COMPARE, *file)["methods"]
        self.assertEqual([method["name"] for method in methods], ["bf", "gpipe"])
        methods = self.results(*COMPARE, *file, "--methods", "bfw")["methods"]
        self.assertEqual([method["name"] for method in methods], ["bfw"])


class RunTimeFailure(SluiceTest):
    def test_the_folder_of_an_output_disappears(self):
        folder = self.folder / "out"
        folder.mkdir()
        command = [BINARY, "train", "--emulate", "f=10ms,b=20ms", "--stages", "1", "--microbatches", "4",
                   "--steps", "20", "--json", "out/run.json", "--timeline", "out/run.html"]  # fmt: skip
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as run:
            progress = run.stderr.readline()
            self.assertRegex(progress, r"\Astep 1/20 ")
            shutil.rmtree(folder)
            _, rest = run.communicate(timeout=120)
        done = subprocess.CompletedProcess(command, run.returncode, stderr=progress + rest)
        self.fail_running("out/run.json", done)
        self.assertEqual(self.files(), [])

    @unittest.skipUnless(os.path.exists("/dev/full"), "has no device that is always full")
    def test_a_full_device(self):
        self.fail_running("/dev/full", self.sluice(*TRAIN, "--json", "/dev/full"))
        self.fail_running("/dev/full", self.sluice(*COMPARE, "--methods", "bf", "--trace", "/dev/full"))

    def test_a_path_given_twice(self):
        (self.folder / "run.toml").write_text("steps = 1\n")
        self.refuse("trace", *TRAIN, "--json", "x.json", "--trace", "./x.json")
        self.refuse("json", *TRAIN, "--config", "run.toml", "--json", "run.toml")
        self.assertEqual((self.folder / "run.toml").read_text(), "steps = 1\n")
        self.succeed(*TRAIN, "--json", "/dev/null", "--trace", "/dev/null")

    def test_a_pipe_nobody_reads(self):
        os.mkfifo(self.folder / "pipe")
        self.fail_running("pipe", self.sluice(*TRAIN, "--json", "pipe"))

    def test_the_published_rules_in_order(self):
        self.refuse("accumulate", *TRAIN, "--rules", "paper", "--accumulate", "order")

    def test_no_pipeline_has_nothing_to_draw(self):
        for option in ("timeline", "trace", "decisions"):
            self.refuse(option, "train", "--no-pipeline", f"--{option}", "out")

    def test_a_run_without_progress_is_given_up(self):
        stuck = ["--jitter", "tail:1,600000", "--stall-timeout", "0.2"]
        done = self.sluice(*TRAIN, *stuck, "--json", "out.json")
        self.assertEqual(done.returncode, RUN_FAILED, done.stderr)
        self.assertIn("no progress", done.stderr)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
