#include "proto/model/purge_scope.h"

#include "proto/base/checksum.h"

namespace ember {

uint64_t TenantHash(std::string_view tenant) { return Xxh3Of64(AsBytes(tenant)); }

bool PurgeScope::Covers(const NamespaceId& segment_ns, uint64_t segment_tenant_hash) const {
  switch (kind) {
    case Kind::kEverything:
      return true;
    case Kind::kNamespace:
      return ns == segment_ns;
    case Kind::kTenant:
      return tenant_hash == segment_tenant_hash;
  }
  return false;
}

}  // namespace ember
