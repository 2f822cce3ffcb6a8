// Membership: keeps the ReplicaSet as its sources say: the command line, a file, a DNS name, the
// admin API. A replica belongs to the source that named it, and only that one takes it away.
// Concurrency: the router's loop thread. `replicas` must outlive it.
#pragma once

#include <map>
#include <set>
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
  // kInvalid: two of one id; then nothing has changed. kMismatch: another source has some of these
  // ids and keeps them. kNoSpace: not all of them found a number. With both, all else was taken.
  Status Replace(const std::string& source, std::vector<ReplicaConfig> wanted);
  // One more of a source. Errors of ReplicaSet::Add.
  Status Add(const std::string& source, ReplicaConfig config);
  // kNotFound: none of that id. kMismatch: a file or DNS names it, and would do so again.
  Status Remove(const std::string& id);
  // What came of the source's newest list.
  void SetTrouble(const std::string& source, const Status& what);

  // "" when there is none of that id.
  std::string SourceOf(const std::string& id) const;
  // Of each source that has any, for people.
  const std::map<std::string, std::string>& troubles() const { return troubles_; }
  // Whether each source that was heard of is in trouble.
  std::map<std::string, bool> SourcesInTrouble() const;

 private:
  ReplicaSet& replicas_;
  std::map<std::string, std::string> sources_;  // by replica id
  std::map<std::string, std::string> troubles_;
  std::set<std::string> heard_of_;
};

}  // namespace ember::router
