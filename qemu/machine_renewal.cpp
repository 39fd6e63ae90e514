// SPDX-License-Identifier: Apache-2.0
// Windows and peers for another owner, while the card runs. Only ivshmem-plain is plugged: an ivshmem-doorbell device
// leaves handlers behind when it is unplugged, and the emulator dies of the second one in the same port.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "qemu/command_line.hpp"
#include "qemu/errors.hpp"
#include "qemu/machine_impl.hpp"

namespace qemu {

namespace {

using Clock = std::chrono::steady_clock;

std::string memory_name(std::uint32_t serial) { return fmt::format("window{}", serial); }

std::unexpected<MachineError> no_such(std::string_view what, unsigned index, std::size_t count) {
  return failure(MachineError::Kind::kInvalidOption,
                 fmt::format("{} {} was asked for, the card has {}.", what, index, count), "Boot the card with more.");
}

}  // namespace

Result<PluggedWindow> Machine::Impl::plug_window(unsigned port, std::uint64_t bytes) {
  if (port >= options.ports) return no_such("port", port, options.ports);
  PluggedWindow window{.port = port, .bytes = bytes};
  {
    const std::scoped_lock lock(renewal_mutex_);
    window.serial = ++last_serial_;
  }
  auto memory = create_window(window.serial, bytes);
  if (!memory) return std::unexpected(std::move(memory.error()));
  window.memory = *std::move(memory);
  const std::string name = memory_name(window.serial);
  // The emulator opens files by name only; this is the name of one that has none.
  const auto added = qmp->execute("object-add",
                                  {{"qom-type", "memory-backend-file"},
                                   {"id", name},
                                   {"mem-path", fmt::format("/proc/{}/fd/{}", ::getpid(), window.memory.get())},
                                   {"size", bytes},
                                   {"share", true}},
                                  options.timeouts.request);
  if (!added) return std::unexpected(added.error());
  const auto plugged = qmp->execute("device_add",
                                    {{"driver", "ivshmem-plain"},
                                     {"id", fmt::format("plugged{}", window.serial)},
                                     {"bus", port_name(port)},
                                     {"memdev", name}},
                                    options.timeouts.request);
  if (plugged) return window;
  [[maybe_unused]] const auto removed = qmp->execute("object-del", {{"id", name}}, options.timeouts.request);
  return std::unexpected(plugged.error());
}

/// The event DEVICE_DELETED can be missed; that the memory can be deleted is proof that nothing uses it any more.
Result<bool> Machine::Impl::window_gone(std::uint32_t serial) {
  const auto deleted = qmp->execute("object-del", {{"id", memory_name(serial)}}, options.timeouts.request);
  if (deleted || deleted.error().message.contains("not found")) return true;
  if (deleted.error().message.contains("in use")) return false;
  return std::unexpected(deleted.error());
}

Result<DoorbellPeer> Machine::Impl::connect_peer(unsigned slot) {
  if (slot >= slots.size()) return no_such("slot", slot, slots.size());
  const auto connected = [&]() -> Result<DoorbellPeer> {
    const std::scoped_lock lock(renewal_mutex_);
    unsigned& next = next_peers_[slot];
    if (next > kLastPeer) {
      return failure(
          MachineError::Kind::kPeersUsedUp,
          fmt::format("the doorbell device of slot {} has had {} owners, the most that it can have.", slot, kLastPeer),
          "Power-cycle the card.");
    }
    auto peer = slots[slot].connect_peer(static_cast<std::uint16_t>(next));
    if (peer) ++next;
    return peer;
  };
  auto peer = connected();
  if (!peer) return peer;
  if (auto read = await_read(slots[slot]); !read) {
    // Its id is used up; the emulator is to let go of it whenever it reads again.
    [[maybe_unused]] const auto ended = disconnect_unread(slot, peer->id);
    return std::unexpected(std::move(read.error()));
  }
  return peer;
}

Result<void> Machine::Impl::disconnect_peer(unsigned slot, std::uint16_t id) {
  if (slot >= slots.size()) return no_such("slot", slot, slots.size());
  if (auto sent = disconnect_unread(slot, id); !sent) return sent;
  return await_read(slots[slot]);
}

Result<void> Machine::Impl::disconnect_unread(unsigned slot, std::uint16_t id) {
  const std::scoped_lock lock(renewal_mutex_);
  return slots[slot].disconnect_peer(id);
}

/// The emulator reads the message in its main loop, which also answers QMP: an answer that was requested after the last
/// byte had been read proves that the peer is connected.
Result<void> Machine::Impl::await_read(const Slot& slot) {
  const auto deadline = Clock::now() + options.timeouts.request;
  for (bool was_read = false; !was_read;) {
    was_read = slot.handshake_read();
    if (auto turned = qmp->execute("query-status", {}, options.timeouts.request); !turned) {
      return std::unexpected(std::move(turned.error()));
    }
    if (!was_read && Clock::now() >= deadline) {
      return failure(
          MachineError::Kind::kTimeout,
          fmt::format("the emulator did not read a peer's message within {} ms.", options.timeouts.request.count()),
          "Check the load of this machine; a slow one needs larger Timeouts (scaled()).");
    }
  }
  return {};
}

Result<PluggedWindow> Machine::plug_window(unsigned port, std::uint64_t bytes) {
  return impl_->plug_window(port, bytes);
}
Result<bool> Machine::window_gone(std::uint32_t serial) { return impl_->window_gone(serial); }
Result<DoorbellPeer> Machine::connect_peer(unsigned slot) { return impl_->connect_peer(slot); }
Result<void> Machine::disconnect_peer(unsigned slot, std::uint16_t id) { return impl_->disconnect_peer(slot, id); }

}  // namespace qemu
