"""`sluice reproduce`: the published tables, simulated; and the scenario files it reads."""

import tomllib
import unittest

from sluice_command import SOURCE_DIR, SluiceTest

PAPER = SOURCE_DIR / "scenarios" / "paper"


class ScenarioFiles(SluiceTest):
    def test_every_file_simulates(self):
        files = sorted(PAPER.glob("*.toml"))
        self.assertGreaterEqual(len(files), 50)
        for path in files:
            with self.subTest(path.name):
                methods = tomllib.loads(path.read_text())["methods"]
                results = self.results("simulate", path, "--seeds", 1)
                self.assertEqual([method["name"] for method in results["methods"]], methods)
                for method in results["methods"]:
                    self.assertGreater(method["makespan_s"], 0)
                    self.assertGreaterEqual(method["bound_ratio"], 1)

    def test_every_row_of_a_published_table_has_a_file(self):
        count = {}
        for path in PAPER.glob("*.toml"):
            table = tomllib.loads(path.read_text())["published"]["table"]
            count[table] = count.get(table, 0) + 1
        self.assertEqual(count, {"1": 12, "2": 8, "3": 3, "6": 4, "7": 1, "8": 22, "limit": 10})

    def test_only_baselines_are_fitted(self):
        for path in PAPER.glob("*.toml"):
            self.assertLessEqual(set(tomllib.loads(path.read_text())["fit"]["columns"]), {"1f1b", "zb-h1"}, path.name)


class Reproduce(SluiceTest):
    def table(self, *arguments):
        results = self.results("reproduce", *arguments, "--seeds", 1)
        self.assertEqual(len(results["tables"]), 1)
        return results["tables"][0]

    def test_hints_of_table_7(self):
        table = self.table("--table", "7")
        self.assertEqual(table["table"], "7")
        [row] = table["rows"]
        self.assertEqual(set(row["methods"]), {"bf", "fb", "b-priority", "f-priority"})
        for method in row["methods"].values():
            seconds = method["seconds"]
            self.assertFalse(seconds["fitted"])
            self.assertAlmostEqual(seconds["error"], seconds["simulated"] / seconds["published"] - 1)
        self.assertEqual(row["methods"]["bf"]["slowdown"]["simulated"], 0)

    def test_errors_of_what_was_fitted_stand_apart(self):
        table = self.table("--table", "1", "--row", "Qwen3-4B")
        self.assertEqual(len(table["rows"]), 4)
        errors = {True: [], False: []}
        for row in table["rows"]:
            for name, method in row["methods"].items():
                self.assertEqual(method["fitted"], name in ("1f1b", "zb-h1"))
                errors[method["fitted"]].append(abs(method["seconds"]["error"]))
        mean = table["mean_absolute_error"]["seconds"]
        self.assertAlmostEqual(mean["fitted"], sum(errors[True]) / 8)
        self.assertAlmostEqual(mean["predicted"], sum(errors[False]) / 8)
        self.assertLess(mean["fitted"], 0.1)

    def test_the_split_of_table_3_adds_up(self):
        for row in self.table("--table", "3")["rows"]:
            for method in row["methods"].values():
                parts = sum(method[part]["simulated"] for part in ("compute", "blocking", "agreement"))
                self.assertAlmostEqual(parts, method["simulated_s"], places=6)

    def test_jitter_slows_fixed_orders_more(self):
        rows = self.table("--table", "6")["rows"]
        slowdowns = [{name: method["slowdown"]["simulated"] for name, method in row["methods"].items()} for row in rows]
        self.assertEqual(slowdowns[0], {"1f1b": 0, "bf": 0})
        for weaker, stronger in zip(slowdowns, slowdowns[1:]):
            self.assertGreater(stronger["1f1b"], weaker["1f1b"])
            self.assertGreater(stronger["1f1b"], stronger["bf"])

    def test_the_same_seeds_give_the_same_figures(self):
        once = self.table("--table", "1", "--row", "GPT3", "--threads", 1)
        self.assertEqual(self.table("--table", "1", "--row", "GPT3", "--threads", 2), once)

    def test_questions(self):
        tables = self.results("reproduce", "--table", "questions", "--seeds", 2)["tables"]
        by_name = {table["table"]: table["rows"] for table in tables}
        self.assertEqual(list(by_name), ["overhead-per-task", "late-readiness", "bad-hints", "accumulation"])
        # Twice the tasks at work pay twice the overhead; what is late is hidden by what is ready.
        worst = by_name["late-readiness"][6]
        self.assertEqual(worst["value_ms"], 10)
        self.assertGreater(worst["methods"]["1f1b"]["change"], 3 * worst["methods"]["bf"]["change"])
        split, fused = (by_name["accumulation"][3]["methods"][way]
                        for way in ("in order, split out of turn", "in order, fused"))  # fmt: skip
        self.assertGreater(fused["change"], 0.05)
        self.assertLess(split["change"], 0.02)

    def grid(self, text):
        (self.folder / "grid").mkdir(exist_ok=True)
        (self.folder / "grid" / "hint_grid.toml").write_text(text)
        return ["reproduce", "--table", "hints", "--scenarios", "grid"]

    GRID = (
        'methods = ["bf", "bfw", "auto"]\n[[block]]\ntopology = "chain"\nstages = [2, 4]\nslowest = [1.0]\n'
        "tail = [0.0, 1.0]\nlimit = [1]\ngroup = [1]\n"
    )

    def test_a_grid_of_hints(self):
        [table] = self.results(*self.grid(self.GRID))["tables"]
        self.assertEqual(table["cells"], 4)
        ratios = []
        for row in table["rows"]:
            seconds = row["makespan_s"]
            ratios.append(seconds["auto"] / min(seconds["bf"], seconds["bfw"]))
            self.assertAlmostEqual(row["ratio"], ratios[-1])
        self.assertAlmostEqual(table["worst_ratio"], max(ratios))
        self.assertAlmostEqual(table["best_ratio"], min(ratios))

    def test_bad_grids_are_refused_with_the_field(self):
        for field, old, new in (
            ("methods", '"bf", "bfw", "auto"', '"bf"'),
            ("block[0].stages", "[2, 4]", "[]"),
            ("block[0].tail", "[0.0, 1.0]", "[nan]"),
            ("block[0].topology", "chain", "ring"),
            ("extra", "[[block]]", "extra = 1\n[[block]]"),
        ):
            with self.subTest(field):
                self.refuse(field, *self.grid(self.GRID.replace(old, new)))

    def test_bad_options_are_refused(self):
        self.refuse("table", "reproduce", "--table", "5")
        self.refuse("row", "reproduce", "--row", "nothing like it")
        self.refuse("seeds", "reproduce", "--seeds", "0")
        self.refuse("scenarios", "reproduce", "--scenarios", "missing")
        self.refuse("json", "reproduce", "--table", "7", "--json", "missing/out.json")

    def test_a_bad_row_is_refused_with_the_field(self):
        text = (PAPER / "table7_hints.toml").read_text()
        folder = self.folder / "bad" / "paper"
        folder.mkdir(parents=True)
        for field, old, new in (
            ("published.table", 'table = "7"', ""),
            ("published.seconds.bf", "bf = 6.00726", 'bf = "fast"'),
            ("published.seconds.zb", "bf = 6.00726", "zb = 1.0"),
            ("publish", "[published]", "[publish]"),
            ("fit.columns", "columns = []", "columns = 7"),
        ):
            with self.subTest(field):
                self.assertIn(old, text)
                (folder / "row.toml").write_text(text.replace(old, new))
                self.refuse(field, "reproduce", "--scenarios", "bad")


if __name__ == "__main__":
    unittest.main()
