// SPDX-License-Identifier: Apache-2.0
// A card with two harts. Hart 1 runs a launch with a scratchpad, and a tensor region of two large pages, the second of
// which may only be read.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "qemu/array/compute_array.hpp"
#include "tests/unit/qemu/array/memory_builder.hpp"

namespace test {

class CardWithArray : public testing::Test {
 protected:
  static constexpr std::uint64_t kWindow = wire::region_window(0);
  static constexpr std::uint64_t kArguments = wire::kContextWindow + wire::kArgumentsOffset;
  static constexpr std::uint64_t kScratchpad = wire::kContextWindow + wire::kScratchpadOffset;
  static constexpr std::uint64_t kSecondPage = kWindow + MemoryBuilder::kLargePage;
  static constexpr unsigned kGreeter = 0, kHart = 1;

  CardWithArray() {
    hello_ = card.take_page();
    locals_ = card.take_page();
    context_ = card.take_page();
    move_ = card.take_page();
    scratchpad_ = card.take_page();
    first_ = card.take_large_page();
    second_ = card.take_large_page();
    card.map(kScratchpad, scratchpad_, 0);
    card.map(kWindow, first_, 1);
    card.map(kWindow + MemoryBuilder::kLargePage, second_, 1, {.write = false});
    set_root(kHart, card.root());
    set_context(kHart, context_, kArguments);
    hello() = {.magic = wire::array::kHelloMagic,
               .version = wire::array::kVersion,
               .harts = 2,
               .ram_base = MemoryBuilder::kFirst,
               .ram_bytes = kBytes,
               .hart_local = locals_,
               .hart_stride = kLocalBytes,
               .root_at = kRootAt,
               .context_at = kContextAt,
               .arguments_at = kArgumentsAt,
               .answer = 0,
               .orders_at = kOrdersAt,
               .reserved = 0,
               .move = move_,
               .regions_begin = first_,
               .reserved1 = {}};
    greet();
  }

  wire::array::Hello& hello() { return *reinterpret_cast<wire::array::Hello*>(card.at(hello_)); }
  void greet() {
    const std::uint64_t instruction = hello_ + 512;
    std::memcpy(card.at(instruction + wire::array::kHelloAddressAt), &hello_, sizeof hello_);
    array.greet(kGreeter, instruction, card.at(instruction));
  }
  void set_word(std::uint64_t physical, std::uint64_t word) { std::memcpy(card.at(physical), &word, sizeof word); }
  void set_root(unsigned hart, std::uint64_t root) { set_word(locals_ + hart * kLocalBytes + kRootAt, root); }
  void set_context(unsigned hart, std::uint64_t context, std::uint64_t arguments) {
    set_word(locals_ + hart * kLocalBytes + kContextAt, context);
    if (context >= MemoryBuilder::kFirst) set_word(context + kArgumentsAt, arguments);
  }
  wire::array::Orders& orders() { return *reinterpret_cast<wire::array::Orders*>(card.at(context_ + kOrdersAt)); }
  wire::array::Move& move() { return *reinterpret_cast<wire::array::Move*>(card.at(move_)); }
  wire::array::Request& request() { return *reinterpret_cast<wire::array::Request*>(card.at(scratchpad_)); }

  bool is_writable(std::uint64_t physical) const {
    return (physical >= first_ && physical < first_ + MemoryBuilder::kLargePage) ||
           (physical >= scratchpad_ && physical < scratchpad_ + MemoryBuilder::kPage);
  }

  // Of the firmware's own structures.
  static constexpr std::uint64_t kLocalBytes = 256, kRootAt = 40, kContextAt = 8, kArgumentsAt = 272, kOrdersAt = 280;
  static constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;
  MemoryBuilder card{kBytes};
  svp::array::ComputeArray array;
  std::uint64_t hello_ = 0, locals_ = 0, context_ = 0, move_ = 0, scratchpad_ = 0, first_ = 0, second_ = 0;
};

}  // namespace test
