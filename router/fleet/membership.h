// Membership: keeps the ReplicaSet as its sources say: the command line, a file, a DNS name, the
// admin API. A replica belongs to the source that named it, and only that one takes it away.
// Concurrency: the router's loop thread. `replicas` must outlive it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "router/fleet/replica_set.h"

namespace ember::router {

inline constexpr char kFlagSource[] = "flag";
inline constexpr char kFileSource[] = "file";
inline constexpr char kDnsSource[] = "dns";  // and ":NAME:PORT", each a source of its own
inline constexpr char kAdminSource[] = "admin";

class Membership {
 public:
  explicit Membership(ReplicaSet& replicas) : replicas_(replicas) {}

  // The source's replicas are these from now on: new ones join, others go when their requests have
  // ended, changed ones do both, unless they MayBecome what is wanted: these and equal ones stay.
  // kInvalid: two of one id, or one that another source has; then nothing has changed. kNoSpace:
  // not all of them found a number.
  Status Replace(const std::string& source, std::vector<ReplicaConfig> wanted);
  // One more of a source. Errors of ReplicaSet::Add.
  Status Add(const std::string& source, ReplicaConfig config);
  // kNotFound: none of that id. kMismatch: a file or DNS names it, and would do so again.
  Status Remove(const std::string& id);
  // What is wrong with a source now, for people; "": nothing.
  void SetTrouble(const std::string& source, std::string what);

  // "" when there is none of that id.
  std::string SourceOf(const std::string& id) const;
  // Of each source that has any.
  const std::map<std::string, std::string>& troubles() const { return troubles_; }

 private:
  ReplicaSet& replicas_;
  std::map<std::string, std::string> sources_;  // by replica id
  std::map<std::string, std::string> troubles_;
};

}  // namespace ember::router
