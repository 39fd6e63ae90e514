// SPDX-License-Identifier: Apache-2.0
// Kernels for the native build: a program is a number, found again in the entry address of a context, and a C++
// function plays its slices. What is tested is everything around a kernel, never a kernel.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "firmware/hal/context.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace fwtest {

enum class Program : std::uint64_t {
  Exit,  // at once
  ExitWithFive,
  Endless,        // uses every slice to its end
  Barriers,       // kBarriers of them, then exits
  TraceBurst,     // trace marks for ever
  TenMarks,       // with the values 0 to 9, then exits
  OneLeaves,      // core 0 of the launch exits, the others wait at a barrier
  Touches,        // one store to region 0, then exits
  Strays,         // a load from address 8
  UntilReleased,  // slices until PlayedKernels::released
  Slices,         // twenty slices, then exits
  BadCall,
  Accumulates,      // one more in the word at kSumAt of region 0 a slice; once released, or at kMostSums, as Touches
  TouchesLate,      // slices until PlayedKernels::released, then as Touches
  Scribbles,        // fills stack, pool and scratchpad, then exits
  FindsBytes,       // exits with 1 when one of them holds a byte
  StaleStack,       // its first store to its stack faults once, as on a hart that knew an older translation; then exits
  BrokenStack,      // likewise, but always
  WritesText,       // a store to its own first instruction
  TellsCorrection,  // exits with the first word of its correction tensor
  Claims,           // kItems one by one, in each of kEpochs; between them a barrier
  Operations,       // kOperations of them, each with its number as progress and a barrier behind it, then exits
  AsksArray,        // kRequests of the compute array, which is played, at kMarkedProgress; exits with their results
  CallsForOrders,   // KernelCall::ArrayOrder, which no array has asked for, then exits
  Marks,            // at kMarkedProgress, with trace marks at the ends of its slices, for ever
};
inline constexpr std::uint64_t kSumAt = 64;
inline constexpr std::uint64_t kMostSums = 50;
inline constexpr unsigned kBarriers = 5;
inline constexpr std::uint32_t kOperations = 6;
inline constexpr std::uint32_t kMarkedProgress = 7;
inline constexpr unsigned kRequests = 4;
// What has come of AsksArray's requests: a decimal digit for each of its requests, the first one foremost.
enum class Played : std::uint8_t { Served = 1, Refused = 2, Corrupted = 3, Failed = 4 };

class PlayedKernels {
 public:
  hal::Stop play(hal::Context& context, std::uint64_t slice_ticks);
  native::KernelPlayer player() {
    return [this](hal::Context& context, std::uint64_t slice) { return play(context, slice); };
  }
  native::Board* board = nullptr;          // set before a kernel runs that asks for its arguments
  std::function<void()> in_slice = [] {};  // what a driver does while a slice runs
  std::atomic<bool> released{false};
  std::atomic<std::uint64_t> slices{0};
  std::atomic<std::uint64_t> results{0};                // of AsksArray, when its last request has been answered
  std::atomic<bool> held{false};                        // AsksArray asks for nothing meanwhile
  std::function<void()> on_failure = [] {};             // what happens between the array's failure and the call
  std::atomic<hal::PhysicalAddress> failing_memory{0};  // what the played array can not read when it is ordered to fail
  static constexpr unsigned kItems = 100;
  static constexpr unsigned kEpochs = 3;
  std::array<std::array<std::atomic<unsigned>, kItems>, kEpochs> claimed{};  // how often each item was handed out

 private:
  hal::Stop touch(hal::Context& context) const;
  hal::Stop ask_array(hal::Context& context);
  hal::Stop accumulate(hal::Context& context) const;
  hal::Stop claim(hal::Context& context);
};

// An image that is this program.
std::vector<std::byte> image_of(Program program);
inline constexpr std::uint64_t kImageStride = 8 * wire::kKiB;

// Brings images of all programs to a Program region of the driver's function. Image i is at i * kImageStride.
RegionHandle load_programs(RawDriver& driver, StreamHandle& stream);
wire::ControlBlock launch_of(RawDriver& driver, StreamHandle& stream, const RegionHandle& programs, Program program,
                             std::uint64_t core_mask = 0);

}  // namespace fwtest
