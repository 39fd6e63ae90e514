// SPDX-License-Identifier: Apache-2.0
#include "qemu/slot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host_driver/base/file_size_signal.hpp"
#include "qemu/errors.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3; Debian 12's headers are older
#endif

namespace qemu {

namespace {

/// Handshake messages of the ivshmem server: 8 bytes, little-endian, at most one descriptor each.
constexpr std::int64_t kProtocolVersion = 0;
constexpr std::int64_t kMemoryFollows = -1;

/// One page holds 512 rings: more are only repetitions of the same hint. It also keeps hundreds of slots within the
/// per-user limit of pipe pages.
constexpr int kDoorbellPipeBytes = 4096;

struct Pipe {
  svp::UniqueFd read_end;
  svp::UniqueFd write_end;
};

Result<Pipe> create_doorbell() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return system_failure("pipe2", errno);
  Pipe doorbell{svp::UniqueFd{ends[0]}, svp::UniqueFd{ends[1]}};
  if (::fcntl(ends[1], F_SETPIPE_SZ, kDoorbellPipeBytes) < 0) return system_failure("F_SETPIPE_SZ", errno);
  return doorbell;
}

Result<void> send_message(int socket, std::int64_t value, int descriptor = -1) {
  // Little-endian on the wire; so is every host this is built for (reaper.cpp lists them).
  iovec part{&value, sizeof value};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof value) {
    return system_failure("sendmsg(ivshmem handshake)", errno);
  }
  return {};
}

/// A pipe's end opened anew: a file description of its own, whose flags no other holder can change.
Result<svp::UniqueFd> open_anew(const svp::UniqueFd& write_end) {
  const std::string path = fmt::format("/proc/self/fd/{}", write_end.get());
  svp::UniqueFd opened{::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)};
  if (!opened.valid()) return system_failure("open(" + path + ")", errno);
  return opened;
}

Result<void> set_size(int window, std::uint64_t bytes) {
  const svp::FileSizeSignalHeld held;
  if (::ftruncate(window, static_cast<off_t>(bytes)) == 0) return {};
  return system_failure(fmt::format("a window of {} bytes: ftruncate", bytes), errno);
}

}  // namespace

Result<svp::UniqueFd> create_window(unsigned number, std::uint64_t bytes) {
  const std::string name = fmt::format("spyre-window-{}", number);
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  svp::UniqueFd window{::memfd_create(name.c_str(), kFlags | MFD_NOEXEC_SEAL)};
  if (!window.valid() && errno == EINVAL) window.reset(::memfd_create(name.c_str(), kFlags));
  if (!window.valid()) return system_failure("memfd_create", errno);
  if (auto sized = set_size(window.get(), bytes); !sized) return std::unexpected(std::move(sized.error()));
  // A peer that could shrink it would make the other side's access a SIGBUS.
  if (::fcntl(window.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_failure("F_ADD_SEALS", errno);
  }
  return window;
}

Result<Slot> Slot::create(unsigned index, const SlotOptions& options) {
  Slot slot;
  slot.index_ = index;
  slot.window_bytes_ = options.window_bytes;

  auto window = create_window(index, options.window_bytes);
  if (!window) return std::unexpected(std::move(window.error()));
  slot.window_ = std::move(*window);

  auto to_card = create_doorbell();
  if (!to_card) return std::unexpected(std::move(to_card.error()));
  auto from_card = create_doorbell();
  if (!from_card) return std::unexpected(std::move(from_card.error()));
  slot.doorbell_to_card_ = std::move(to_card->write_end);
  slot.doorbell_from_card_ = std::move(from_card->read_end);

  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_failure("socketpair", errno);
  slot.server_end_.reset(ends[0]);
  slot.emulator_end_.reset(ends[1]);

  // The emulator's ends of the doorbells live on inside the socket; this process needs them no longer.
  if (auto sent = slot.send_handshake(to_card->read_end.get(), from_card->write_end.get()); !sent) {
    return std::unexpected(std::move(sent.error()));
  }
  return slot;
}

Result<void> Slot::send_handshake(int doorbell_read_by_card, int doorbell_written_by_card) const {
  // The order is binding: doorbells of the own id before the memory crash QEMU, and the first three are read in
  // realize.
  const struct {
    std::int64_t value;
    int descriptor;
  } messages[] = {
      {kProtocolVersion, -1},
      {kCardPeer, -1},
      {kMemoryFollows, window_.get()},
      {kHostPeer, doorbell_written_by_card},
      {kCardPeer, doorbell_read_by_card},
  };
  for (const auto& message : messages) {
    if (auto sent = send_message(server_end_.get(), message.value, message.descriptor); !sent) return sent;
  }
  return {};
}

bool Slot::handshake_read() const {
  int unread = 0;
  return ::ioctl(server_end_.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
}

Result<svp::SlotHandle> Slot::handle() const {
  svp::UniqueFd window = window_.duplicate();
  svp::UniqueFd to_card = window.valid() ? doorbell_to_card_.duplicate() : svp::UniqueFd{};
  svp::UniqueFd from_card = to_card.valid() ? doorbell_from_card_.duplicate() : svp::UniqueFd{};
  if (!from_card.valid()) return system_failure("F_DUPFD_CLOEXEC", errno);
  return svp::SlotHandle{index_, window_bytes_, std::move(window), std::move(to_card), std::move(from_card)};
}

Result<DoorbellPeer> Slot::connect_peer(std::uint16_t id) const {
  auto to_card = open_anew(doorbell_to_card_);
  if (!to_card) return std::unexpected(std::move(to_card.error()));
  auto from_card = create_doorbell();
  if (!from_card) return std::unexpected(std::move(from_card.error()));
  if (auto sent = send_message(server_end_.get(), id, from_card->write_end.get()); !sent) {
    return std::unexpected(std::move(sent.error()));
  }
  return DoorbellPeer{index_, id, *std::move(to_card), std::move(from_card->read_end)};
}

Result<void> Slot::disconnect_peer(std::uint16_t id) const { return send_message(server_end_.get(), id); }

}  // namespace qemu
