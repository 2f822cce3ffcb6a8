// File: an open file whose reads, writes and syncs run on a Loop. Opened by a FileSystem.
//
// Concurrency: the loop's thread only (or before Run). Any number of operations may be pending at
// once, in no order among each other: a caller that needs one to come after another awaits the
// first. Nothing promises what a read sees of a write that is pending over the same bytes.
// Life: a File outlives its pending operations (a CHECK failure otherwise) and may outlive its
// loop. Buffers stay valid until their operation has completed, also after Stop: disk I/O can't be
// called back, so what the kernel or a helper thread has begun is waited for and gives its result;
// the rest ends with kCancelled.
//
// Errors: kNoSpace when the file system, the quota or the file size limit is full; kBusy when the
// process is out of descriptors or memory; kCancelled after Stop; kUnavailable for everything else,
// EIO above all. Each carries the path and the system's reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "client/io/task.h"
#include "proto/base/bytes.h"
#include "proto/base/status.h"

namespace ember::io {

// Direct files: offsets, lengths and buffer addresses are multiples of this.
inline constexpr size_t kDirectAlignment = 4096;

class File {
 public:
  virtual ~File() = default;

  // Fills `buffer` from byte `offset` of the file on; the number of bytes read is less than
  // buffer.size() only where the file ends. On an error the buffer's content is undefined.
  virtual Task<Result<size_t>> ReadAt(uint64_t offset, MutableByteSpan buffer) = 0;
  // Writes `parts`, in order and without gaps, from byte `offset` on; the file grows as needed. Any
  // number of parts, taken before the first suspension: the list need not stay, the bytes must.
  // All or an error; after an error any part of the bytes may be there.
  virtual Task<Status> WriteAt(uint64_t offset, std::span<const ByteSpan> parts) = 0;
  // When it is done, all that was written by operations that had completed when it was called
  // survives a loss of power, with what is needed to read it back (fdatasync). After an error the
  // kernel may have dropped unwritten pages: the data is then lost, and trying again proves
  // nothing.
  virtual Task<Status> Sync() = 0;

  // The three below block; they are for setting files up, not for a data path.
  // Makes the file exactly `length` bytes long; new bytes read as zero.
  virtual Status Truncate(uint64_t length) = 0;
  // Reserves disk space for the first `length` bytes and makes the file at least that long, so that
  // later writes there need no space. A file system that can't reserve only sets the length.
  virtual Status Allocate(uint64_t length) = 0;
  // In bytes.
  virtual Result<uint64_t> Size() = 0;

  // Operations bypass the page cache, and offsets, lengths and addresses (of each part) must be
  // multiples of kDirectAlignment; anything else is a CHECK failure. False when not asked for, or
  // when the file system refuses it: then the same calls work through the page cache.
  virtual bool direct() const = 0;
  // As opened, for logs.
  virtual const std::string& path() const = 0;
};

}  // namespace ember::io
