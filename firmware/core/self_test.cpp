// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/self_test.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>

#include "firmware/core/admin.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/image.hpp"
#include "firmware/core/main_loop.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/context.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"
#include "shared/timeouts.hpp"

namespace fw {

using wire::Field;
using wire::Status;

namespace {

// An iteration of hart 0's loop must not take as long as the other harts take for a hang.
std::uint64_t longest(const Card& card) {
  const std::uint64_t watchdog = card.options.loop_watchdog_ms * wire::kTicksPerMillisecond;
  return watchdog == 0 ? wire::kSelfTestTicks : std::min(wire::kSelfTestTicks, watchdog / 4);
}

// Asked now and then: a self-test is the longest thing that hart 0 does, and the heartbeat goes on meanwhile.
bool is_over(Card& card, const Function& function, std::uint64_t start) {
  card.heart.stepped(hal::now());
  beat(card);
  if (card.heart.stepped_at() - start > longest(card)) return true;
  return somebody_waits(card, function) && !mutated(Mutant::SelfTestYields);
}

// The limit that an empty control block is measured against: the same two parties, nothing between them but two words.
void echo(Card& card, Function& function, std::uint64_t offset, std::uint32_t rounds, wire::AdminReply& reply) {
  const auto& request = *function.at<std::uint64_t>(offset);
  auto& answer = *function.at<std::uint64_t>(offset + wire::kStickBytes);
  const std::uint64_t start = hal::now();
  std::uint64_t seen = wire::load_acquire(request);
  wire::store_release(answer, seen);  // tells the host that the loop runs
  std::uint32_t done = 0;
  // The clock is read rarely: reading it costs as much as a round.
  constexpr std::uint32_t kLooksPerClock = 4096;
  for (std::uint32_t looks = 1; done < rounds; ++looks) {
    const std::uint64_t word = wire::load_acquire(request);
    if (word != seen) {
      seen = word;
      wire::store_release(answer, word);
      ++done;
    }
    if (looks % kLooksPerClock == 0 && is_over(card, function, start)) break;
  }
  reply.values.self_test = {done, hal::now() - start};
}

struct Trampoline {
  static constexpr std::uint64_t kText = wire::kContextWindow;
  static constexpr std::uint64_t kStack = kText + wire::kGranuleBytes;

  bool map() {
    root = hal::create_root();
    pages = hal::allocate_pages(kBytes);
    if (root == 0 || pages == 0) return false;
    // li a7, 0 (KernelCall::Exit); ecall
    constexpr std::array<std::uint32_t, 2> kCode{0x00000893, 0x00000073};
    hal::copy_code(pages, reinterpret_cast<const std::byte*>(kCode.data()), sizeof kCode);
    context = new (hal::pointer(pages + 2 * kPageBytes)) hal::Context;
    return hal::map(root, kText, pages, kPageBytes, hal::Protection::ReadExecute) &&
           hal::map(root, kStack, pages + kPageBytes, kPageBytes, hal::Protection::ReadWrite);
  }
  ~Trampoline() {
    if (root != 0) hal::destroy_root(root);
    if (pages != 0) hal::free_pages(pages, kBytes);
  }

  // Text page, stack page, the context itself.
  static constexpr std::uint64_t kBytes = 2 * kPageBytes + wire::align_up(sizeof(hal::Context), kPageBytes);
  std::uint64_t root = 0;
  hal::PhysicalAddress pages = 0;
  hal::Context* context = nullptr;
};

// The limit of an empty kernel: into U-mode and back by the exit call, nothing else; in turn in each of `spaces`.
void enter_and_exit(Card& card, const Function& function, std::uint32_t rounds, std::uint32_t spaces,
                    wire::AdminReply& reply) {
  std::array<Trampoline, 2> trampolines;
  for (std::uint32_t i = 0; i < spaces; ++i) {
    if (trampolines[i].map()) continue;
    reply = refusal(Status::OutOfExecutionAreas, Field::AdminSelfTest);
    return;
  }
  const std::uint64_t start = hal::now();
  std::uint32_t done = 0;
  while (done < rounds && (done % 64 != 0 || !is_over(card, function, start))) {
    const Trampoline& trampoline = trampolines[done % spaces];
    hal::start(*trampoline.context, trampoline.root, Trampoline::kText, Trampoline::kStack + kPageBytes, 0);
    hal::StopReason reason;
    do reason = hal::run(*trampoline.context, kSliceTicks).reason;
    while (reason != hal::StopReason::Exit && !is_over(card, function, start));
    if (reason == hal::StopReason::Exit) ++done;
  }
  reply.values.self_test = {done, hal::now() - start};
}

bool checksums_are_right() {
  constexpr std::string_view kCheck = "123456789";
  return wire::crc32c(0, kCheck.data(), kCheck.size()) == 0xE3069283;  // the check value of CRC-32/ISCSI
}

// Across what the vector moves treat differently: odd places, a tail, more than one group.
bool moves_are_right() {
  constexpr std::uint64_t kBytes = 16 * kPageBytes;
  constexpr std::uint64_t kPattern = 0x0123'4567'89ab'cdef;
  constexpr std::uint64_t kOdd = 3, kLength = kBytes - 64 + 5;
  const hal::PhysicalAddress pages = hal::allocate_pages(2 * kBytes);
  if (pages == 0) return false;
  std::byte* from = hal::pointer(pages);
  std::byte* to = hal::pointer(pages + kBytes);
  hal::fill(from, kPattern, kBytes);
  hal::copy(to + kOdd, from, kLength);
  bool right = to[kOdd - 1] == std::byte{0} && to[kOdd + kLength] == std::byte{0};
  for (std::uint64_t i = 0; i < kLength; ++i) {
    right = right && to[kOdd + i] == static_cast<std::byte>(kPattern >> i % 8 * 8);
  }
  hal::free_pages(pages, 2 * kBytes);
  return right;
}

bool kernels_come_back() {
  constexpr std::uint64_t kSlice = 1000 * wire::kTicksPerMicrosecond;
  constexpr unsigned kMostSlices = 1000;
  Trampoline trampoline;
  if (!trampoline.map()) return false;
  hal::start(*trampoline.context, trampoline.root, Trampoline::kText, Trampoline::kStack + kPageBytes, 0);
  for (unsigned slice = 0; slice < kMostSlices; ++slice) {
    const hal::StopReason reason = hal::run(*trampoline.context, kSlice).reason;
    if (reason == hal::StopReason::Exit) return true;
    if (reason != hal::StopReason::Timer && reason != hal::StopReason::Interrupted) break;
  }
  hal::drop(*trampoline.context);
  return false;
}

}  // namespace

std::expected<void, const char*> run_boot_self_test() {
  if (!checksums_are_right()) return std::unexpected("self-test: checksums");
  if (!moves_are_right()) return std::unexpected("self-test: moves of memory");
  if (hal::contexts_supported() && !kernels_come_back()) return std::unexpected("self-test: kernels");
  return {};
}

void run_self_test(Card& card, Function& function, const wire::AdminRequest& request, wire::AdminReply& reply) {
  const auto& arguments = request.arguments.self_test;
  if (function.kind() != wire::FunctionKind::Physical) {
    reply = refusal(Status::NotPermitted, Field::AdminCommand);
    return;
  }
  switch (arguments.kind) {
    case wire::SelfTestKind::Echo:
      if (!wire::is_aligned(arguments.offset, wire::kStickBytes) ||
          !wire::host_memory(function.window().size()).contains(arguments.offset, 2 * wire::kStickBytes)) {
        reply = refusal(Status::NotHostMemory, Field::AdminSelfTest);
        return;
      }
      return echo(card, function, arguments.offset, arguments.rounds, reply);
    case wire::SelfTestKind::EnterExit:
    case wire::SelfTestKind::Switch:
      if (!hal::contexts_supported()) {
        reply = refusal(Status::Unsupported, Field::AdminSelfTest);
        return;
      }
      return enter_and_exit(card, function, arguments.rounds, arguments.kind == wire::SelfTestKind::Switch ? 2 : 1,
                            reply);
  }
  reply = refusal(Status::BadType, Field::AdminSelfTest);
}

}  // namespace fw
