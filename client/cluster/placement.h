// Placement: which members of a view own a placement group. A pure function; any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "client/cluster/view.h"
#include "proto/model/block_hash.h"

namespace ember::cluster {

// The ordered owners of a placement group: the first `copies` members by weighted rendezvous
// hashing (Highest Random Weight, Thaler and Ravishankar 1998; weights as in Mosko's -w/ln(h)
// form), as indexes into view.members. With zones, an owner in a zone that has none yet goes before
// a higher score. Adding or removing one member moves only that member's share. A weight of 0 owns
// nothing.
//
// score(member) = -weight / ln(h), h = XXH3-64(ns id || placement hash || member id) as a 53-bit
// fraction strictly between 0 and 1; equal scores go to the smaller id.
std::vector<size_t> Owners(const View& view, const NamespaceId& ns, const BlockHash& placement,
                           size_t copies);

// Which of a node's `shards` (at least 1) has a placement group: floor(h * shards) with h =
// XXH3-64(ns id || placement hash) as a fraction below 1. The same on every node.
size_t ShardOf(const NamespaceId& ns, const BlockHash& placement, size_t shards);

}  // namespace ember::cluster
