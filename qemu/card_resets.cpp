// SPDX-License-Identifier: Apache-2.0
// The reset levels that concern the whole card: firmware restart, card reset, power cycle.
#include <poll.h>

#include <chrono>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/device/firmware_restart.hpp"
#include "host_driver/transport/running_clock.hpp"
#include "qemu/card_impl.hpp"
#include "qemu/machine_error.hpp"

namespace svp {

namespace {

using Clock = std::chrono::steady_clock;

ErrorInfo did_not_come_back(std::string message, wire::Outcome outcome) {
  return {.layer = Layer::Firmware,
          .source = "card",
          .outcome = outcome,
          .recoverable = false,
          .next_step = "power-cycle the card, or start a new one",
          .message = std::move(message)};
}

}  // namespace

Expected<std::shared_ptr<Window>> Card::Impl::management_window() {
  const auto handle = current()->slot(kManagementSlot);
  if (!handle) return std::unexpected(from_machine(handle.error()));
  return Window::map(handle->window_fd(), handle->window_bytes());
}

Expected<void> Card::Impl::await_next_boot(const Window& management, std::uint64_t before) {
  const auto exit_fd = current()->exit_fd();
  if (!exit_fd) return std::unexpected(from_machine(exit_fd.error()));
  RunningClock clock;
  clock.watch([of = current()] { return of->held_by_debugger(); }, options.timeouts.restart_silence / kLooksAtDebugger);
  ProgressBudget budget(options.timeouts.restart_beats, options.timeouts.restart_silence, clock.now());
  for (;;) {
    const HeaderView header = management.header();
    const bool next = header.magic == wire::kWindowMagic && header.boot_epoch != before;
    if (next && header.post_code == wire::PostCode::Ready) return {};
    const std::string post = "POST " + std::to_string(static_cast<std::uint32_t>(header.post_code)) + " (" +
                             std::string(wire::name(header.post_code)) + ")";
    if (next && header.post_code >= wire::PostCode::Failed) {
      return std::unexpected(did_not_come_back("the card's boot ended at " + post, wire::Outcome::Indeterminate));
    }
    const std::uint64_t progress = header.boot_epoch << 32 | static_cast<std::uint32_t>(header.post_code);
    if (!budget.look(header.heartbeat, progress, clock.now())) {
      return std::unexpected(did_not_come_back(
          next ? "the card stays at " + post : "the card goes on in its old boot, or stands still, at " + post,
          wire::Outcome::Indeterminate));
    }
    // Nobody rings for M; its end is noticed at once.
    pollfd end{exit_fd->get(), POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(options.timeouts.header_check / std::chrono::milliseconds{1})) > 0) {
      return std::unexpected(did_not_come_back("the emulator ended before the card was ready", wire::Outcome::Lost));
    }
  }
}

Expected<void> Card::Impl::restart_firmware(Device* management) {
  const auto window = management_window();
  if (!window) return std::unexpected(window.error());
  const std::uint64_t before = (*window)->boot_epoch();
  std::unique_ptr<Device> opened;
  if (management == nullptr) {
    auto attached = open(kManagementSlot, "M", {});
    if (!attached) return std::unexpected(std::move(attached.error()));
    opened = *std::move(attached);
  }
  if (auto asked = ask_for_firmware_restart(management != nullptr ? *management : *opened); !asked) return asked;
  return await_next_boot(**window, before);
}

Expected<void> Card::Impl::reset() {
  const auto window = management_window();
  if (!window) return std::unexpected(window.error());
  const std::uint64_t before = (*window)->boot_epoch();
  if (mutated(HostMutant::CardReset)) return std::unexpected(wedged_error("a mutant", deaths));
  if (auto done = current()->system_reset(); !done) return std::unexpected(from_machine(done.error()));
  return await_next_boot(**window, before);
}

Expected<void> Card::Impl::power_cycle() {
  timelines.clear();
  if (auto killed = current()->kill(); !killed) return std::unexpected(from_machine(killed.error()));
  auto started = qemu::Machine::start(machine_for(options));
  if (!started) return std::unexpected(from_machine(started.error()));
  auto next = std::make_shared<qemu::Machine>(*std::move(started));
  {
    const std::lock_guard lock(mutex);
    std::swap(machine, next);
    // Who opened a function of the machine before holds nothing of this one.
    owners = {};
  }
  next.reset();
  const auto window = management_window();
  if (!window) return std::unexpected(window.error());
  return await_next_boot(**window, 0);
}

Expected<void> Card::Impl::run(ResetLevel level, Device* management) {
  {
    const std::lock_guard lock(mutex);
    if (deaths.wedged()) return std::unexpected(wedged_error("the card", deaths));
  }
  Expected<void> done;
  switch (level) {
    case ResetLevel::Firmware: done = restart_firmware(management); break;
    case ResetLevel::Card: done = reset(); break;
    case ResetLevel::PowerCycle: done = power_cycle(); break;
    default: return {};
  }
  if (done) ++boots;
  return done;
}

Expected<void> Card::restart_firmware(Device* management) {
  if (auto ours = impl_->require_own_process(); !ours) return ours;
  const std::lock_guard level(impl_->level_mutex);
  return impl_->run(ResetLevel::Firmware, management);
}
Expected<void> Card::reset() {
  if (auto ours = impl_->require_own_process(); !ours) return ours;
  const std::lock_guard level(impl_->level_mutex);
  return impl_->run(ResetLevel::Card);
}
Expected<void> Card::power_cycle() {
  if (auto ours = impl_->require_own_process(); !ours) return ours;
  const std::lock_guard level(impl_->level_mutex);
  return impl_->run(ResetLevel::PowerCycle);
}

std::uint64_t Card::boots() const { return impl_->boots.load(); }

Expected<void> Card::raise(ResetLevel level, std::uint64_t seen, bool wanted) {
  if (auto ours = impl_->require_own_process(); !ours) return ours;
  const std::lock_guard one(impl_->level_mutex);
  if (impl_->boots.load() != seen) return {};
  if (level == ResetLevel::PowerCycle && !wanted) {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->deaths.note(Clock::now())) return std::unexpected(wedged_error("the card", impl_->deaths));
  }
  return impl_->run(level);
}

}  // namespace svp
