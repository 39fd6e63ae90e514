// SPDX-License-Identifier: Apache-2.0
#include "host_driver/transport/window.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/base/system_call.hpp"

namespace svp {

namespace {

ErrorInfo bad_window(std::string message) {
  return {.layer = Layer::Transport,
          .source = "window descriptor",
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = "attach with the slot handle that the machine's owner gave out",
          .message = std::move(message)};
}

}  // namespace

Expected<std::shared_ptr<Window>> Window::map(int fd, std::uint64_t bytes) {
  if (!std::has_single_bit(bytes) || bytes < wire::kMinWindowBytes || bytes > wire::kMaxWindowBytes) {
    return std::unexpected(bad_window("a window of " + std::to_string(bytes) + " bytes is not a power of two from " +
                                      std::to_string(wire::kMinWindowBytes) + " to " +
                                      std::to_string(wire::kMaxWindowBytes)));
  }
  struct stat info{};
  if (system_call([&] { return ::fstat(fd, &info); }) != 0) {
    return std::unexpected(bad_window("cannot examine the window's file: " + std::generic_category().message(errno)));
  }
  // A shorter file would end in SIGBUS at some later access; the emulator derived BAR2's size from the same file.
  if (static_cast<std::uint64_t>(info.st_size) != bytes) {
    return std::unexpected(bad_window("the window's file has " + std::to_string(info.st_size) + " bytes instead of " +
                                      std::to_string(bytes)));
  }
  std::unique_ptr<Window> window(new Window({}, {}));  // first: what is mapped has an owner then
  void* at = system_call([&] { return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); });
  if (at == MAP_FAILED) {
    return std::unexpected(bad_window("cannot map the window: " + std::generic_category().message(errno)));
  }
  window->bytes_ = {static_cast<std::byte*>(at), bytes};
  // A child that wrote to it would break the rings of its parent.
  if (system_call([&] { return ::madvise(at, bytes, MADV_DONTFORK); }) != 0) {
    return std::unexpected(
        bad_window("cannot keep the window from forked children: " + std::generic_category().message(errno)));
  }
  window->identity_ = {info.st_dev, info.st_ino};
  return std::shared_ptr<Window>(std::move(window));
}

Window::~Window() {
  // In a forked child something else may stand there.
  if (!bytes_.empty() && process_.is_this() && !mutated(HostMutant::Unmap)) ::munmap(bytes_.data(), bytes_.size());
}

HeaderView Window::header() const {
  const auto& header = at<wire::WindowHeader>(0);
  HeaderView view{};
  view.magic = wire::load_acquire(header.magic);
  view.abi_version = wire::load_relaxed(header.abi_version);
  view.kind = wire::load_relaxed(header.kind);
  view.function_index = wire::load_relaxed(header.function_index);
  view.generation = wire::load_relaxed(header.generation);
  view.boot_epoch = wire::load_relaxed(header.boot_epoch);
  view.heartbeat = wire::load_relaxed(header.heartbeat);
  view.post_code = static_cast<wire::PostCode>(wire::load_relaxed(header.post_code));
  view.device_status = wire::load_relaxed(header.device_status);
  view.events_lost = wire::load_relaxed(header.events_lost);
  return view;
}

}  // namespace svp
