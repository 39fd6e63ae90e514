// SPDX-License-Identifier: Apache-2.0
// Staging of pageable memory: a few pinned chunks per device and one worker thread that copies between them and the
// caller's memory, so that neither a caller nor the reaping thread ever copies. Chunks are handed out one by one in
// order of request: streams that stage at the same time take turns.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/staged_converter.hpp"
#include "shared/units.hpp"

namespace svp {

class StagingClient;

struct StagingChunk {
  PinnedBuffer buffer;
  StagingChunk* next = nullptr;     // in the engine's lists
  StagingClient* client = nullptr;  // holder, or null
  // The holder's own notes: which transfer, which part of it.
  void* transfer = nullptr;
  std::byte* host = nullptr;             // null: `converter` moves the bytes
  StagedConverter* converter = nullptr;  // likewise
  std::uint64_t offset = 0;              // of the transfer's bytes
  std::uint64_t bytes = 0;
};

// First in, first out, through the items' own `next`: nothing is allocated where nothing may fail.
template <typename T>
class StagingList {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }
  void push(T& item) {
    item.next = nullptr;
    (tail_ == nullptr ? head_ : tail_->next) = &item;
    tail_ = &item;
  }
  T& pop() {
    T& item = *head_;
    head_ = item.next;
    if (head_ == nullptr) tail_ = nullptr;
    return item;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

// A stream. Called on the worker, with no lock of the engine held.
class StagingClient {
 public:
  // A requested chunk is there. True: kept, to be given back by release() or drain(). False: not needed any more.
  virtual bool on_chunk(StagingChunk& chunk) noexcept = 0;
  // After drain(): copy out. The chunk goes back when this returns.
  virtual void on_drain(StagingChunk& chunk) noexcept = 0;
  // The same, but nothing is copied: the engine has been stopped.
  virtual void on_drain_dropped(StagingChunk& chunk) noexcept = 0;

  // The engine's.
  StagingClient* next = nullptr;
  unsigned wanted = 0;  // chunks it has asked for

 protected:
  ~StagingClient() = default;
};

struct StagingOptions {
  std::size_t chunks = 2;
  std::size_t chunk_bytes = 8 * wire::kMiB;  // at most; all chunks together take a quarter of host memory at most
};

class StagingEngine {
 public:
  // Takes its chunks at once. In a small window they are smaller than asked for. Throws OutOfMemory when host memory
  // has no room for them.
  StagingEngine(HostMemory& memory, const StagingOptions& options);
  ~StagingEngine();  // ends the worker; no client is called afterwards
  StagingEngine(const StagingEngine&) = delete;
  StagingEngine& operator=(const StagingEngine&) = delete;

  std::size_t chunk_bytes() const { return chunk_bytes_; }
  std::size_t chunks() const { return chunks_.size(); }

  // Any thread, also with the client's own locks held.
  void request(StagingClient& client);
  void drain(StagingChunk& chunk);
  void release(StagingChunk& chunk);

  // Forgets the client's requests and waits until the worker is not inside its on_chunk. Not with the client's locks
  // held.
  void cancel_requests(StagingClient& client);
  void stop();
  // After stop(): tells the clients of the copies that were not made, on this thread.
  void drop_drains();

 private:
  void run();
  void serve_drain(std::unique_lock<std::mutex>& lock);
  void serve_request(std::unique_lock<std::mutex>& lock);

  const std::size_t chunk_bytes_;
  std::vector<StagingChunk> chunks_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable left_;         // the worker left a client
  StagingList<StagingClient> requests_;  // each once, with what it wants
  StagingList<StagingChunk> drains_;
  StagingList<StagingChunk> free_;
  StagingClient* serving_ = nullptr;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace svp
