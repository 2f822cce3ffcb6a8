// WriteSlotFile: the slot file of a prefix, from the payloads of its segments.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client/agent/slot_file.h"

namespace ember::agent {
namespace {
constexpr size_t kMaxParts = 1024;  // IOV_MAX on Linux

Status WriteParts(int fd, std::vector<iovec> parts) {
  off_t offset = 0;
  size_t next = 0;
  while (next < parts.size()) {
    const auto count = static_cast<int>(std::min(kMaxParts, parts.size() - next));
    const ssize_t n = ::pwritev(fd, &parts[next], count, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return NoSpaceError(std::string("write slot file: ") + std::strerror(errno));
    offset += n;
    for (auto left = static_cast<size_t>(n); left > 0;) {
      iovec& part = parts[next];
      const size_t step = std::min(left, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
      part.iov_len -= step;
      left -= step;
      if (part.iov_len == 0) ++next;
    }
  }
  if (::ftruncate(fd, offset) != 0) {
    return NoSpaceError(std::string("cut slot file: ") + std::strerror(errno));
  }
  return OkStatus();
}

// All that stands before the first plane.
Bytes Preamble(const SlotShape& shape, std::span<const TokenId> tokens) {
  const auto n = static_cast<uint32_t>(tokens.size());
  Bytes out;
  ByteWriter w(&out);
  w.Put(kSlotFileMagic);
  w.Put(kSlotFileVersion);
  w.Put(n);  // a plain token list, which the engine takes as well as a packed one
  w.PutRaw(std::as_bytes(tokens));
  w.Put(uint32_t{1});  // streams
  w.Put(n);
  for (uint32_t position = 0; position < n; ++position) {
    w.Put(position);
    w.Put(uint32_t{1});
    w.Put(uint32_t{0});
  }
  w.Put(uint32_t{0});  // V is not transposed
  w.Put(shape.layers);
  w.Put(shape.n_rot_k);
  w.Put(shape.n_rot_v);
  return out;
}

}  // namespace

Status WriteSlotFile(int fd, const SlotShape& shape, std::span<const TokenId> tokens,
                     std::span<const ByteSpan> payloads, size_t tokens_per_payload) {
  if (payloads.empty() || tokens_per_payload == 0 ||
      tokens.size() != payloads.size() * tokens_per_payload || tokens.size() > kMaxSlotTokens) {
    return MismatchError("slot file: payloads and tokens do not match");
  }
  for (ByteSpan payload : payloads) {
    EMBER_RETURN_IF_ERROR(CheckPayload(payload, shape, tokens_per_payload));
  }
  const Bytes preamble = Preamble(shape, tokens);
  Bytes plane_headers;
  ByteWriter w(&plane_headers);
  for (const SlotPlane& plane : shape.planes) {
    w.Put(plane.type);
    w.Put(uint64_t{plane.row_bytes});
  }
  std::vector<iovec> parts;
  parts.reserve(1 + shape.planes.size() * (1 + payloads.size()));
  const auto add = [&parts](const std::byte* data, size_t size) {
    parts.push_back({const_cast<std::byte*>(data), size});  // writev's interface lacks the const
  };
  add(preamble.data(), preamble.size());
  const size_t header_bytes = plane_headers.size() / shape.planes.size();
  size_t offset = shape.PayloadHeaderBytes();
  for (size_t p = 0; p < shape.planes.size(); ++p) {
    const size_t rows = size_t{shape.planes[p].row_bytes} * tokens_per_payload;
    add(plane_headers.data() + p * header_bytes, header_bytes);
    for (ByteSpan payload : payloads) add(payload.data() + offset, rows);
    offset += rows;
  }
  return WriteParts(fd, std::move(parts));
}

}  // namespace ember::agent
