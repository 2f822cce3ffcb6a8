#include "client/io/stream.h"

namespace ember::io {

Task<Result<size_t>> ReadExactly(Stream& stream, MutableByteSpan buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    Result<size_t> read = co_await stream.ReadBulk(buffer.subspan(done));
    if (!read.ok()) co_return read.status();
    if (*read == 0) {
      if (done == 0) co_return NotFoundError(stream.peer_name() + " closed the connection");
      co_return UnavailableError(stream.peer_name() + " closed the connection after " +
                                 std::to_string(done) + " of " + std::to_string(buffer.size()) +
                                 " bytes");
    }
    done += *read;
  }
  co_return done;
}

}  // namespace ember::io
