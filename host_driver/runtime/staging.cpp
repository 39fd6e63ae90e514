// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/staging.hpp"

#include <algorithm>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/base/start_thread.hpp"

namespace svp {

namespace {

std::size_t chunk_bytes_in(const HostMemory& memory, const StagingOptions& options) {
  const std::uint64_t share = memory.statistics().total_bytes / 4 / std::max<std::size_t>(options.chunks, 1);
  const std::size_t pages = share / HostMemory::kLargeBytes * HostMemory::kLargeBytes;
  return std::min(options.chunk_bytes, std::max(pages, HostMemory::kLargeBytes));
}

}  // namespace

StagingEngine::StagingEngine(HostMemory& memory, const StagingOptions& options)
    : chunk_bytes_(chunk_bytes_in(memory, options)) {
  for (std::size_t i = 0; i < options.chunks; ++i) {
    chunks_.push_back({.buffer = memory.allocate(chunk_bytes_, BufferUse::Staging)});
  }
  for (StagingChunk& chunk : chunks_) free_.push(chunk);
  worker_ = start_worker("staged transfers", [this] { run(); });
}

StagingEngine::~StagingEngine() { stop(); }

void StagingEngine::stop() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  if (worker_.joinable()) worker_.join();  // bounded: stop_ is set; it copies one chunk at most
}

void StagingEngine::drop_drains() {
  std::unique_lock lock(mutex_);
  while (!drains_.empty()) {
    StagingChunk& chunk = drains_.pop();
    lock.unlock();
    chunk.client->on_drain_dropped(chunk);
    lock.lock();
  }
}

void StagingEngine::request(StagingClient& client) {
  {
    const std::lock_guard guard(mutex_);
    if (client.wanted++ == 0) requests_.push(client);
  }
  work_.notify_one();
}

void StagingEngine::drain(StagingChunk& chunk) {
  {
    const std::lock_guard guard(mutex_);
    drains_.push(chunk);
  }
  work_.notify_one();
}

void StagingEngine::release(StagingChunk& chunk) {
  {
    const std::lock_guard guard(mutex_);
    chunk.client = nullptr;
    free_.push(chunk);
  }
  work_.notify_one();
}

void StagingEngine::cancel_requests(StagingClient& client) {
  std::unique_lock lock(mutex_);
  left_.wait(lock, [&] { return serving_ != &client; });  // bounded: the worker copies one chunk and tells
  if (std::exchange(client.wanted, 0) == 0) return;
  StagingList<StagingClient> others;
  while (!requests_.empty()) {
    StagingClient& next = requests_.pop();
    if (&next != &client) others.push(next);
  }
  requests_ = others;
}

void StagingEngine::run() {
  std::unique_lock lock(mutex_);
  for (;;) {  // bounded: ends with stop_, which the destructor sets
    // bounded: an idle worker; nobody waits for it but stop(), which wakes it
    work_.wait(lock, [&] { return stop_ || !drains_.empty() || (!requests_.empty() && !free_.empty()); });
    if (stop_) return;
    // Drains first: they give chunks back.
    drains_.empty() ? serve_request(lock) : serve_drain(lock);
  }
}

void StagingEngine::serve_drain(std::unique_lock<std::mutex>& lock) {
  StagingChunk& chunk = drains_.pop();
  lock.unlock();
  chunk.client->on_drain(chunk);
  lock.lock();
  chunk.client = nullptr;
  free_.push(chunk);
}

void StagingEngine::serve_request(std::unique_lock<std::mutex>& lock) {
  StagingClient* client = &requests_.pop();
  if (--client->wanted != 0) requests_.push(*client);  // behind the others: they take turns
  StagingChunk& chunk = free_.pop();
  chunk.client = client;
  serving_ = client;
  lock.unlock();
  const bool kept = client->on_chunk(chunk);
  lock.lock();
  serving_ = nullptr;
  left_.notify_all();
  if (!kept) {
    chunk.client = nullptr;
    free_.push(chunk);
  }
}

}  // namespace svp
