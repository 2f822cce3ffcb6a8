#include "client/http/upstream_connection.h"

#include <algorithm>
#include <utility>

#include "client/http/tls_context.h"

namespace ember::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {
constexpr size_t kReadSize = 16 << 10;
constexpr size_t kMaxBuffered = 128 << 10;  // a reply's head of 64 KiB and a read behind it
}  // namespace

UpstreamConnection::UpstreamConnection(const asio::any_io_executor& executor)
    : wire(Wire::Socket(executor)), buffer(kMaxBuffered) {
  buffer.reserve(kReadSize);
}

asio::awaitable<error_code> UpstreamConnection::Fill() {
  if (buffer.size() == buffer.max_size()) co_return asio::error::no_buffer_space;
  size_t n = 0;
  const error_code ec = co_await wire.ReadSome(
      buffer.prepare(std::min(kReadSize, buffer.max_size() - buffer.size())), &n);
  buffer.commit(n);
  co_return ec;
}

bool UpstreamConnection::LooksAlive() {
  char byte = 0;
  error_code ec;
  wire.socket().receive(asio::buffer(&byte, 1), asio::socket_base::message_peek, ec);
  return ec == asio::error::would_block || ec == asio::error::try_again;
}

UpstreamMetrics::UpstreamMetrics(MetricsRegistry* given)
    : own(given == nullptr ? std::make_unique<MetricsRegistry>() : nullptr),
      registry(given == nullptr ? *own : *given),
      connections(
          registry.AddGauge("ember_upstream_connections", "Upstream connections, in use and idle")),
      idle(registry.AddGauge("ember_upstream_idle_connections",
                             "Upstream connections kept for reuse")),
      connects(registry.AddCounter("ember_upstream_connects_total", "Upstream connections made")),
      reuses(registry.AddCounter("ember_upstream_reuses_total", "Exchanges on a kept connection")),
      stale_retries(registry.AddCounter("ember_upstream_stale_retries_total",
                                        "Exchanges begun anew because a kept connection was dead")),
      refused(registry.AddCounter("ember_upstream_refused_total",
                                  "Exchanges over the connection bound")) {}

UpstreamStore::UpstreamStore(asio::any_io_executor loop, NameResolver& name_resolver,
                             const UpstreamPoolOptions& options)
    : executor(std::move(loop)),
      names(name_resolver),
      metrics(options.metrics),
      options_(options),
      tls_(options.tls),
      sweep_timer_(executor) {}

bool UpstreamStore::Reserve(const Origin& origin, bool aside) {
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[origin];
  size_t& used = aside ? peer.aside : peer.in_use;
  if (used >= (aside ? options_.max_aside_per_origin : options_.max_connections_per_origin)) {
    metrics.refused.Add();
    return false;
  }
  peer.forgotten = false;
  ++used;
  ++in_use_;
  CountAll();
  return true;
}

std::unique_ptr<UpstreamConnection> UpstreamStore::TakeIdle(const Origin& origin) {
  Doomed doomed;
  std::lock_guard lock(mutex_);
  const auto peer = peers_.find(origin);
  if (peer == peers_.end()) return nullptr;
  const TimePoint oldest = std::chrono::steady_clock::now() - options_.idle_timeout;
  while (!peer->second.idle.empty()) {
    auto connection = std::move(peer->second.idle.back());
    peer->second.idle.pop_back();
    --idle_;
    CountAll();
    if (connection->idle_since >= oldest && connection->LooksAlive()) return connection;
    doomed.push_back(std::move(connection));
  }
  return nullptr;
}

void UpstreamStore::Release(Peer& peer, bool aside) {
  --(aside ? peer.aside : peer.in_use);
  --in_use_;
}

void UpstreamStore::Put(const Origin& origin, bool aside,
                        std::unique_ptr<UpstreamConnection> connection) {
  connection->served_before = true;
  connection->idle_since = std::chrono::steady_clock::now();
  Doomed doomed;
  std::lock_guard lock(mutex_);
  const auto peer = peers_.find(origin);
  Release(peer->second, aside);
  if (closed_ || peer->second.forgotten ||
      peer->second.idle.size() >= options_.max_idle_per_origin) {
    doomed.push_back(std::move(connection));
    EraseIfUnused(peer);
  } else {
    peer->second.idle.push_back(std::move(connection));
    ++idle_;
    ScheduleSweep();
  }
  CountAll();
}

void UpstreamStore::Drop(const Origin& origin, bool aside) {
  std::lock_guard lock(mutex_);
  const auto peer = peers_.find(origin);
  Release(peer->second, aside);
  EraseIfUnused(peer);
  CountAll();
}

void UpstreamStore::Forget(const Origin& origin) {
  Doomed doomed;
  std::lock_guard lock(mutex_);
  const auto peer = peers_.find(origin);
  if (peer == peers_.end()) return;
  peer->second.forgotten = true;
  idle_ -= peer->second.idle.size();
  doomed = std::exchange(peer->second.idle, {});
  EraseIfUnused(peer);
  CountAll();
}

void UpstreamStore::CloseIdle() {
  std::vector<Doomed> doomed;
  std::lock_guard lock(mutex_);
  doomed.reserve(peers_.size());
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    doomed.push_back(std::exchange(peer->second.idle, {}));
    EraseIfUnused(peer++);
  }
  idle_ = 0;
  CountAll();
}

void UpstreamStore::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    sweep_timer_.cancel();
  }
  CloseIdle();
}

Result<std::shared_ptr<TlsContext>> UpstreamStore::Tls() {
  std::lock_guard lock(mutex_);
  if (tls_ != nullptr) return tls_;
  auto made = TlsContext::ForClient({});
  if (made.ok()) tls_ = *made;
  return made;
}

void UpstreamStore::ScheduleSweep() {
  if (sweeping_ || closed_) return;
  sweeping_ = true;
  sweep_timer_.expires_after(options_.idle_timeout);
  sweep_timer_.async_wait([weak = weak_from_this()](error_code) {
    if (const auto self = weak.lock()) self->Sweep();
  });
}

void UpstreamStore::Sweep() {
  Doomed doomed;
  std::lock_guard lock(mutex_);
  sweeping_ = false;
  const TimePoint oldest = std::chrono::steady_clock::now() - options_.idle_timeout;
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    auto& idle = peer->second.idle;
    const auto keep = std::stable_partition(idle.begin(), idle.end(),
                                            [&](const auto& c) { return c->idle_since < oldest; });
    idle_ -= static_cast<size_t>(keep - idle.begin());
    std::move(idle.begin(), keep, std::back_inserter(doomed));
    idle.erase(idle.begin(), keep);
    EraseIfUnused(peer++);
  }
  CountAll();
  if (idle_ > 0) ScheduleSweep();
}

void UpstreamStore::EraseIfUnused(std::map<Origin, Peer>::iterator peer) {
  if (peer->second.in_use + peer->second.aside == 0 && peer->second.idle.empty())
    peers_.erase(peer);
}

void UpstreamStore::CountAll() {
  metrics.idle.Set(static_cast<double>(idle_));
  metrics.connections.Set(static_cast<double>(idle_ + in_use_));
}

size_t UpstreamStore::idle_count() {
  std::lock_guard lock(mutex_);
  return idle_;
}

size_t UpstreamStore::connection_count() {
  std::lock_guard lock(mutex_);
  return idle_ + in_use_;
}

}  // namespace ember::http
