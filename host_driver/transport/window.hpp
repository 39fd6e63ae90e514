// SPDX-License-Identifier: Apache-2.0
// A function's shared window, mapped. In this process only: a forked child does not inherit the mapping. The map is
// fixed by shared/window.hpp: nothing here follows an offset that the card wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "host_driver/base/error.hpp"
#include "host_driver/base/process.hpp"
#include "host_driver/transport/window_identity.hpp"
#include "shared/memory_order.hpp"
#include "shared/message.hpp"
#include "shared/post_codes.hpp"
#include "shared/window.hpp"

namespace svp {

// What the card shows about itself. Advisory (protocol §2): good for waiting and for error texts, never for addresses.
struct HeaderView {
  std::uint64_t magic;
  std::uint32_t abi_version;
  wire::FunctionKind kind;
  std::uint32_t function_index;
  std::uint64_t generation;
  std::uint64_t boot_epoch;
  std::uint64_t heartbeat;
  wire::PostCode post_code;
  std::uint32_t device_status;
  std::uint64_t events_lost;
};

class Window {
 public:
  // `bytes` is what the broker said: a power of two between wire::kMinWindowBytes and wire::kMaxWindowBytes, and the
  // size of the file behind `fd`. The descriptor may be closed afterwards.
  static Expected<std::shared_ptr<Window>> map(int fd, std::uint64_t bytes);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  const WindowIdentity& identity() const { return identity_; }
  std::span<std::byte> host_memory() const {
    const wire::Block block = wire::host_memory(bytes_.size());
    return bytes_.subspan(block.offset, block.bytes);
  }

  // Relaxed reads, except the magic (acquire): one consistent line is not promised.
  HeaderView header() const;
  std::uint64_t heartbeat() const { return wire::load_relaxed(at<wire::WindowHeader>(0).heartbeat); }
  std::uint64_t boot_epoch() const { return wire::load_relaxed(at<wire::WindowHeader>(0).boot_epoch); }
  std::uint32_t device_status() const { return wire::load_relaxed(at<wire::WindowHeader>(0).device_status); }

  wire::Fifo& fifo_to_card() const { return at<wire::Fifo>(wire::kFifoToCard.offset); }
  wire::Fifo& fifo_to_host() const { return at<wire::Fifo>(wire::kFifoToHost.offset); }
  // Sequence number of the last block that a stream has started.
  std::uint64_t started_sequence(std::uint32_t stream) const {
    return wire::load_acquire(at<std::uint64_t>(wire::kStartedSequences.offset + stream * 8));
  }
  std::uint64_t* words(std::uint64_t offset) const { return &at<std::uint64_t>(offset); }

  // A structure of the contract at a constant offset of the contract.
  template <typename T>
  T& at(std::uint64_t offset) const {
    return *reinterpret_cast<T*>(bytes_.data() + offset);
  }

 private:
  Window(std::span<std::byte> bytes, WindowIdentity identity) : bytes_(bytes), identity_(identity) {}
  std::span<std::byte> bytes_;
  WindowIdentity identity_;
  OwnerProcess process_;
};

}  // namespace svp
