"""`--nvtx` where the ranks are processes. Needs UCX, and no LibTorch."""

import unittest

from nvtx_calls import NvtxTest, count

MICROBATCHES = 4
ITERATIONS = 2
COMPARE = ["compare", "--emulate", "f=1ms,b=2ms,w=1ms", "--microbatches", MICROBATCHES, "--iterations", ITERATIONS,
           "--rendezvous", "ucx"]  # fmt: skip


class Processes(NvtxTest):
    def test_each_rank_annotates_its_own_stage(self):
        calls = self.calls(*COMPARE, "--spawn", 3, "--methods", "1f1b,bfw", "--nvtx", "--profile-iterations", "1")
        self.assert_balanced(calls)
        names = {call["process"]: call["name"] for call in calls if call["call"] == "name thread"}
        self.assertEqual(sorted(names.values()), [f"rank {rank} (stage {rank})" for rank in range(3)])
        tasks = MICROBATCHES * (ITERATIONS + 1)
        for process, name in names.items():
            own = [call for call in calls if call["process"] == process]
            chunk = name[5]
            self.assertEqual(
                count(own, "start"),
                {f"F chunk {chunk}": 2 * tasks, f"B+W chunk {chunk}": tasks, f"B chunk {chunk}": tasks,
                 f"W chunk {chunk}": tasks, "profile": 1},
            )  # fmt: skip
        self.assertEqual(sum(count(calls, "mark")[f"activation edge {edge}"] for edge in range(2)), 2 * 2 * tasks)

    def test_ranks_of_a_group_wait_for_its_decisions(self):
        calls = self.calls(*COMPARE, "--spawn", 4, "--tp", 2, "--methods", "bfw", "--nvtx")
        self.assert_balanced(calls)
        self.assertGreater(count(calls, "push")["wait: agreement"], 0)
        names = sorted(call["name"] for call in calls if call["call"] == "name thread")
        self.assertEqual(names, [f"rank {rank} (stage {rank // 2}, member {rank % 2})" for rank in range(4)])


if __name__ == "__main__":
    unittest.main()
