// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/native_attacker.hpp"

#include <chrono>
#include <cstring>
#include <string>

#include "firmware/core/timeouts.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/memory_order.hpp"
#include "shared/trace.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/firmware/core/function_check.hpp"

namespace fuzz {

namespace {

constexpr unsigned kPhysicalSlot = 1;
constexpr unsigned kVirtualSlot = 2;
constexpr unsigned kBystanderSlot = 3;
constexpr int kCanary = 0xc5;
// From here on the window of a function that does nothing never changes (the header has a heartbeat).
constexpr std::uint64_t kQuiet = wire::kHeaderBlock.end();

fwtest::CardOptions options(fwtest::PlayedKernels& kernels) {
  return {.virtual_functions = 2,
          .harts = 2,
          .window_bytes = wire::kMinWindowBytes,
          .region_bytes = 32 * wire::kMiB,
          .boot_arguments = "watchdog=2 strikes=3",
          .kernel = kernels.player(),
          .page_bytes = 256 * wire::kMiB};
}

std::span<std::byte> host_memory(const fwtest::RawDriver& driver) {
  return driver.window().subspan(wire::kHostMemoryOffset);
}
bool untouched(std::span<const std::byte> bytes) {
  return bytes.front() == std::byte{kCanary} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

NativeAttacker& NativeAttacker::instance() {
  static NativeAttacker attacker;
  return attacker;
}

NativeAttacker::NativeAttacker()
    : card_(options(kernels_)),
      physical_(card_.window(kPhysicalSlot), [this] { settle(); }),
      virtual_(card_.window(kVirtualSlot), [this] { settle(); }),
      bystander_(card_.window(kBystanderSlot), [this] { settle(); }) {
  kernels_.board = &card_.board();
  require(bystander_.bring_up(), "the bystander function comes up");
  require(bystander_.acquire(wire::kGranuleBytes).has_value(), "the bystander function gets a region");
  const fw::Region& granted = card_.function(kBystanderSlot).regions.at(0);
  bystander_region_ = {hal::pointer(granted.base), granted.bytes};
  std::memset(bystander_region_.data(), kCanary, bystander_region_.size());
  std::memset(host_memory(bystander_).data(), kCanary, host_memory(bystander_).size());
  settle();
  remember_bystander();
  free_bytes_ = card_.card().pool.free_bytes();
  pages_ = card_.board().pages_in_use();
}

void NativeAttacker::remember_bystander() {
  // Until it counts as quiet: resets are made to wait for functions that are at work (firmware/core/reset.hpp).
  constexpr unsigned kUntilQuiet = 2 * fw::kQuietLooks;
  run_iterations(kUntilQuiet);
  const auto window = bystander_.window();
  bystander_blocks_.assign(window.begin() + kQuiet, window.begin() + wire::kHostMemoryOffset);
}

void NativeAttacker::begin(bool physical) {
  hostile_ = physical ? &physical_ : &virtual_;
  require(hostile_->set_status(0) == 0, "a reset is answered");
  settle();
}

raw::GrantHandle NativeAttacker::grant_bystander() {
  const std::uint32_t hostile = hostile_ == &physical_ ? kPhysicalSlot : kVirtualSlot;
  const auto made = card_.card().event_grants.make({.function = kBystanderSlot, .stream = 0}, hostile);
  require(made.has_value(), "the same grant again is the same one");
  return {made->index, made->epoch};
}

void NativeAttacker::revoke_bystander() {
  const std::uint32_t hostile = hostile_ == &physical_ ? kPhysicalSlot : kVirtualSlot;
  card_.card().event_grants.revoke(hostile, grant_bystander().index);
}

void NativeAttacker::look_at_hostile() {
  fw::Function& hostile = card_.function(hostile_ == &physical_ ? kPhysicalSlot : kVirtualSlot);
  const std::string broken = fwtest::broken_property(card_.card(), hostile);
  require(broken.empty(), broken.c_str());
}

bool NativeAttacker::slices() {
  bool any = false;
  for (unsigned hart = 0; hart < card_.card().core_count(); ++hart) {
    native::become_hart(hart);
    any |= card_.card().launches.run_slice(hart, fw::kSliceTicks);
  }
  native::become_hart(0);
  return any;
}

bool NativeAttacker::resets_run() {
  for (unsigned i = 0; i < card_.card().functions.count(); ++i) {
    if (card_.function(i).reset.running()) return true;
  }
  return false;
}

void NativeAttacker::run_iterations(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    fw::run_iteration(card_.card());
    look_at_hostile();
    slices();
    look_at_hostile();
  }
}

void NativeAttacker::settle() {
  // An endless kernel is killed after four slices, and a reset may be made to wait for 50 ms.
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kAnswer;
  do {
    card_.pump();
    look_at_hostile();
    require(std::chrono::steady_clock::now() < limit, "the card comes to rest");
  } while (slices() || resets_run());
}

// The hostile function has submitted nothing since its reset: an entry would be of before.
void NativeAttacker::expect_empty_trace() {
  auto request = hostile_->admin_request(wire::AdminCommand::Trace);
  request.arguments.trace.on = 1;
  require(hostile_->admin(request).outcome == wire::Outcome::Ok, "a trace begins");
  card_.card().traces.drain();
  const auto* ring = hostile_->at<wire::TraceEntry>(wire::kTraceRing.offset);
  for (std::uint64_t place = 0; place < wire::kTraceEntries; ++place) {
    require(wire::load_relaxed(ring[place].number) == 0, "a new trace holds nothing of the last owner");
  }
}

void NativeAttacker::expect_contained() {
  settle();
  require(untouched(bystander_region_), "the region of another function is untouched");
  require(untouched(host_memory(bystander_)), "the host memory of another function is untouched");
  require(std::memcmp(bystander_.window().data() + kQuiet, bystander_blocks_.data(), bystander_blocks_.size()) == 0,
          "rings, messages and completions of another function are untouched");
  require(bystander_.header().magic == wire::kWindowMagic && hostile_->header().magic == wire::kWindowMagic,
          "headers stand");
  require(bystander_.run(bystander_.nop(bystander_stream_)).outcome == wire::Outcome::Ok,
          "the bystander function works");
  remember_bystander();

  auto& to_card = *hostile_->at<wire::Fifo>(wire::kFifoToCard.offset);
  wire::store_release(to_card.written, wire::load_acquire(to_card.read));
  while (hostile_->receive()) {  // bounded: by what the FIFO holds, the card does nothing meanwhile
  }
  require(hostile_->bring_up(), "status 0 heals the function");
  expect_empty_trace();
  fwtest::StreamHandle stream;
  require(hostile_->run(hostile_->nop(stream)).outcome == wire::Outcome::Ok, "and it works as new");
  settle();  // released memory is scrubbed
  require(card_.card().pool.free_bytes() == free_bytes_, "its regions came back");
  require(card_.board().pages_in_use() == pages_, "its pages came back");
}

}  // namespace fuzz
