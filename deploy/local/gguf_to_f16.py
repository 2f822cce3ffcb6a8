"""Writes a quantised GGUF model again with every matrix in F16 and every vector in F32.

usage: gguf_to_f16.py SOURCE.gguf DESTINATION.gguf

The Q4_1 weights that the PyPI package ships answer badly in llama.cpp and prefill slower on a CPU than the same
weights de-quantised, so the demo and the end-to-end tests use F16. Metadata is copied as it is.
"""

import sys

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize

WRITTEN_ANEW = ("general.architecture", "general.file_type", "general.quantization_version")


def copy_metadata(reader, writer):
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in WRITTEN_ANEW:
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, inner)
    writer.add_file_type(LlamaFileType.MOSTLY_F16)


def copy_tensors(reader, writer):
    for tensor in reader.tensors:
        shape = [
            int(n) for n in reversed(tensor.shape)
        ]  # GGUF counts the fastest dimension first, numpy last
        values = dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        kind = np.float16 if values.ndim > 1 else np.float32
        writer.add_tensor(tensor.name, np.ascontiguousarray(values.astype(kind)))


def main(source, destination):
    reader = GGUFReader(source)
    writer = GGUFWriter(destination, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    copy_tensors(reader, writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
