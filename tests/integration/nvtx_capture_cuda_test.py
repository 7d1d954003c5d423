"""`sluice capture` as a tool of NVTX sees it, on the fake device."""

import os
import pathlib
import unittest
import unittest.mock

from nvtx_calls import NvtxTest

PLUGINS = pathlib.Path(os.environ["SLUICE_CAPTURE_PLUGINS_DIR"])
FAKE = os.environ["SLUICE_FAKE_CUDA_DIR"]


class Streams(NvtxTest):
    def test_the_stream_of_the_captures_has_a_name(self):
        library_path = f"{FAKE}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        with unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=library_path):
            calls = self.calls(
                "capture", "--plugin", PLUGINS / "libdiagonal_layers.so", "--slots", 1, "--output", "captured"
            )
        names = [call["name"] for call in calls if call["call"] == "name stream"]
        self.assertEqual(names, ["sluice capture"])


if __name__ == "__main__":
    unittest.main()
