// What a writer says in a segment's header, and what a reader requires of it before it believes the
// bytes; the same whichever way they travel. Pure but for the hashing. Any thread.
#pragma once

#include "client/store_client/store_client.h"
#include "proto/base/random.h"

namespace ember {

// kInvalid: no payload, or more of something than a segment may have.
Status CheckPut(const PutRequest& request);
// Of a request that passed CheckPut: the encoded header, checksum included, of a new generation.
Bytes SealedHeader(const PutRequest& request, const LayoutDigest& layout, const std::string& writer,
                   const std::string& tenant, RandomSource& random);

// Whether this header is of what was asked for; kNone fills `*header`, and so may other reasons.
// The payload is not looked at.
MissReason OpenHeader(ByteSpan encoded, const SegmentRef& want, std::span<const TokenId> tokens,
                      const LayoutDigest& layout, SegmentHeader* header);
// Whether what fills the request's buffer is what this header promises: of a whole payload by its
// checksum (`received`, or else made here), of a range by its bounds alone.
bool IsIntact(const GetRequest& request, const SegmentHeader& header,
              const std::optional<Checksum>& received = std::nullopt);

}  // namespace ember
