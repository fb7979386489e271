"""bench/jfa_ctypes.py on a simulated GPU: python3 jfa_ctypes_test.py LIBRARY"""

import array
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench"))
import jfa_ctypes  # noqa: E402

HEADS, HEAD_DIM = 2, 16
ONE, POISON = 0x3F80, 0xC0C0  # bf16


class CtypesTest(unittest.TestCase):
    library_path = None

    def setUp(self):
        self.library = jfa_ctypes.Library(self.library_path)
        self.device = self.library.open("sim:sm_100a")
        self.addCleanup(self.library.close, self.device)

    def upload(self, type_code, values):
        data = array.array(type_code, values)
        byte_count = len(data) * data.itemsize
        address = self.library.allocate(self.device, byte_count)
        self.library.jfa_upload(self.device, address, data.buffer_info()[0], byte_count)
        return address

    def download(self, type_code, address, count):
        data = array.array(type_code, [0] * count)
        self.library.jfa_download(self.device, data.buffer_info()[0], address, count * data.itemsize)
        return list(data)

    def tensor(self, rows, bits):
        address = self.upload("H", [bits] * (rows * HEADS * HEAD_DIM))
        return jfa_ctypes.Tensor(address, rows, HEADS, HEAD_DIM, HEADS * HEAD_DIM, HEAD_DIM, jfa_ctypes.BF16)

    def offsets(self, values):
        return jfa_ctypes.Offsets(self.upload("q", values), len(values), jfa_ctypes.INT64)

    def call(self):
        """One query of the first sequence sees no key, two of the second see three."""
        return jfa_ctypes.Call(query=self.tensor(3, 0), key=self.tensor(3, ONE), value=self.tensor(3, ONE),
                               query_offset=self.offsets([0, 1, 3]), key_offset=self.offsets([0, 0, 3]))

    def workspace(self, byte_count):
        return jfa_ctypes.Workspace(self.library.allocate(self.device, byte_count), byte_count)

    def test_forward_and_backward(self):
        row = HEADS * HEAD_DIM
        call, output = self.call(), self.tensor(3, POISON)
        lse = self.upload("f", [7.0] * (HEADS * 3))
        workspace = self.workspace(self.library.workspace_bytes(call))
        self.library.jfa_forward(self.device, call, output, lse, workspace, None)
        self.library.jfa_status(self.device, workspace, None)
        self.assertEqual(self.download("H", output.address, 3 * row), [0] * row + [ONE] * (2 * row))
        self.assertEqual(self.download("f", lse, 1), [float("-inf")])

        output_grad = jfa_ctypes.OutputGradient(self.upload("H", [ONE] * 8), 3, HEADS, HEAD_DIM)  # strides 0
        gradients = [self.tensor(3, POISON) for _ in range(3)]
        workspace = self.workspace(self.library.backward_workspace_bytes(call, output_grad))
        self.library.jfa_backward(self.device, call, output, lse, output_grad, 0, *gradients, workspace, None)
        self.library.jfa_status(self.device, workspace, None)
        for gradient in gradients[:2]:
            self.assertEqual(self.download("H", gradient.address, 3 * row), [0] * (3 * row))
        value_grad = self.download("H", gradients[2].address, 3 * row)
        two_thirds = 0x3F2B  # the nearest bf16
        self.assertEqual(value_grad, [two_thirds] * (3 * row))

    def test_errors_are_exceptions(self):
        call, output = self.call(), self.tensor(3, POISON)
        call.query.heads = 3
        with self.assertRaisesRegex(jfa_ctypes.Error, "query.heads") as caught:
            self.library.jfa_forward(self.device, call, output, 0, None, None)
        self.assertEqual(caught.exception.kind, "invalid argument")
        with self.assertRaisesRegex(jfa_ctypes.Error, "toaster:0"):
            self.library.open("toaster:0")

    def test_bad_offsets_without_a_workspace_are_heard_of(self):
        call, output = self.call(), self.tensor(3, POISON)
        call.key_offset = self.offsets([0, 2, 9])
        self.library.jfa_forward(self.device, call, output, 0, None, None)
        with self.assertRaisesRegex(jfa_ctypes.Error, r"key_offset\[2\] is 9") as caught:
            self.library.jfa_synchronize(self.device, None)
        self.assertEqual(caught.exception.kind, "invalid argument")
        self.library.jfa_synchronize(self.device, None)
        row = HEADS * HEAD_DIM
        self.assertEqual(self.download("H", output.address, 3 * row), [POISON] * (3 * row))

    def test_configurations(self):
        configuration = jfa_ctypes.Configuration(head_dim=HEAD_DIM)
        self.library.jfa_supported(configuration)
        self.assertIn(128, self.library.supported_head_dims())
        configuration.head_dim = 12
        with self.assertRaisesRegex(jfa_ctypes.Error, "12"):
            self.library.jfa_supported(configuration)
        self.assertEqual(self.library.target(self.device), "compute_100f")
        self.assertRegex(self.library.version, r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    CtypesTest.library_path = sys.argv.pop(1)
    unittest.main()
