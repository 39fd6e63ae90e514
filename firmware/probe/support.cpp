// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "firmware/arch/riscv/text_line.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "shared/kernel_abi.hpp"

namespace probe {

namespace {

unsigned passed;
unsigned failed;

constexpr std::uint64_t kStackPlace = wire::kContextWindow + wire::kStackOffset;
constexpr std::uint64_t kDataPlace = wire::kContextWindow + wire::kScratchpadOffset;

std::uint64_t text_bytes() {
  return wire::align_up(static_cast<std::uint64_t>(probe_kernels_end - probe_kernels_begin), std::uint64_t{4096});
}

std::uint64_t next(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33 ^ state;
}

}  // namespace

unsigned failures() { return failed; }
unsigned passes() { return passed; }

bool Proof::expect(bool condition, const char* what) {
  if (!condition && failed_ == nullptr) failed_ = what;
  return condition;
}

bool Proof::expect_equal(std::uint64_t found, std::uint64_t wanted, const char* what) {
  if (found == wanted || failed_ != nullptr) return found == wanted;
  failed_ = what;
  found_ = found;
  wanted_ = wanted;
  compared_ = true;
  return false;
}

Proof::~Proof() {
  riscv::TextLine line;
  if (failed_ != nullptr) {
    ++failed;
    line.text("FAIL ").text(name_).text(": ").text(failed_);
    if (compared_) line.text(" is ").hex(found_).text(", not ").hex(wanted_);
  } else if (skipped_ != nullptr) {
    line.text("SKIP ").text(name_).text(": ").text(skipped_);
  } else {
    ++passed;
    line.text("PASS ").text(name_);
  }
  hal::log(line.c_str());
}

void finish() {
  hal::log(riscv::TextLine().text("probe: ").decimal(passed).text(" passed, ").decimal(failed).text(" failed").c_str());
  hal::exit(failed == 0 ? 0 : 1);
}

void figure(const char* name, std::uint64_t value, const char* unit) {
  hal::log(riscv::TextLine().text("FIGURE ").text(name).text(" ").decimal(value).text(" ").text(unit).c_str());
}

Space::Space()
    : root_(hal::create_root()),
      text_(hal::allocate_pages(text_bytes())),
      stack_(hal::allocate_pages(kStackBytes)),
      data_(hal::allocate_pages(kDataBytes)) {
  std::copy(probe_kernels_begin, probe_kernels_end, hal::pointer(text_));
  const bool mapped = hal::map(root_, wire::kContextWindow, text_, text_bytes(), hal::Protection::ReadExecute) &&
                      hal::map(root_, kStackPlace, stack_, kStackBytes, hal::Protection::ReadWrite) &&
                      hal::map(root_, kDataPlace, data_, kDataBytes, hal::Protection::ReadWrite);
  if (!mapped) hal::panic("probe: no address space");
}

Space::~Space() {
  hal::destroy_root(root_);
  hal::free_pages(text_, text_bytes());
  hal::free_pages(stack_, kStackBytes);
  hal::free_pages(data_, kDataBytes);
}

std::uint64_t Space::data_address(std::uint64_t offset) const { return kDataPlace + offset; }
std::uint64_t* Space::data(std::uint64_t offset) const {
  return reinterpret_cast<std::uint64_t*>(hal::pointer(data_ + offset));
}

void Space::start(hal::Context& context, const std::byte* kernel, std::uint64_t argument) const {
  const auto entry = static_cast<std::uint64_t>(kernel - probe_kernels_begin);
  hal::start(context, root_, wire::kContextWindow + entry, kStackPlace + kStackBytes, argument);
}

hal::Stop run_through(hal::Context& context, std::uint64_t slice) {
  hal::Stop stop{};
  do {
    stop = hal::run(context, slice);
  } while (stop.reason == hal::StopReason::Timer || stop.reason == hal::StopReason::Interrupted);
  return stop;
}

void scramble(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(next(seed));
}

bool scrambled(std::span<const std::byte> bytes, std::uint64_t seed) {
  return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(next(seed)); });
}

}  // namespace probe
