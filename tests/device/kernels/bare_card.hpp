// SPDX-License-Identifier: Apache-2.0
// Runs kernel images on an emulated hart with nothing else on the card: for tests of kernels against the golden model.
// No rings, no watchdog (a run has a time limit after which the emulator is killed), region 0 only, one core at a time.
// Of the work that a kernel claims each core but the last gets one to three items.
//
// All guest memory is a memory file that this process maps too, so operands and results are plain host memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shared/kernel_abi.hpp"
#include "tests/bounds.hpp"

namespace kernel_test {

// A kernel image as the build made it, checked for size only.
std::vector<std::byte> read_image(const std::string& path);

struct RunResult {
  bool exited;           // ended by its own exit call
  std::uint64_t status;  // of exit
  std::uint64_t cause;   // mcause otherwise
  std::uint64_t pc;      // relative to text when inside it
  std::uint64_t value;   // mtval
  std::uint64_t ticks;   // 100 ns each, all cores together
  std::uint64_t marks;   // trace marks
  std::uint64_t last_mark;
  std::uint64_t barriers;
};

// Everything throws std::runtime_error when the emulator does not do what it should.
class BareCard {
 public:
  explicit BareCard(const std::string& boot_elf);
  ~BareCard();
  BareCard(const BareCard&) = delete;
  BareCard& operator=(const BareCard&) = delete;

  // Region 0 as a kernel sees it: byte offset 0 is the address region_window(0). Tests place tensors from kTensors up.
  static constexpr std::uint64_t kTensors = 512 * wire::kMiB;
  static constexpr std::uint64_t kRegionBytes = 1 * wire::kGiB;
  std::span<std::byte> region() { return {memory_, kRegionBytes}; }
  template <typename T>
  std::span<T> tensor(std::uint64_t offset, std::size_t count) {
    return {reinterpret_cast<T*>(memory_ + offset), count};
  }

  // An address symbol's region_id is kRegion.
  static constexpr std::uint64_t kRegion = 0;
  static wire::CorrectionSymbol address(std::uint32_t operand, std::uint64_t offset) {
    return {wire::SymbolKind::Address, operand, kRegion, offset, 0};
  }
  static wire::CorrectionSymbol stride(std::uint32_t operand, std::uint64_t bytes) {
    return {wire::SymbolKind::Stride, operand, 0, bytes, 0};
  }
  static wire::CorrectionSymbol dimension(std::uint32_t operand, std::uint64_t elements) {
    return {wire::SymbolKind::Dimension, operand, 0, elements, 0};
  }
  static wire::CorrectionSymbol partials(std::uint32_t operand, std::uint64_t offset) {
    return {wire::SymbolKind::Partials, operand, offset == 0 ? wire::kNoRegion : kRegion, offset, 0};
  }
  static wire::CorrectionSymbol pass(std::uint32_t operand, std::uint64_t bits) {
    return {wire::SymbolKind::Pass, operand, 0, bits, 0};
  }

  // Runs the image once for each core of a launch, one core after the other, and stops at the first that fails.
  // `name` tells images apart: one that was loaded before is used again, with a fresh literal pool.
  RunResult run(const std::string& name, std::span<const std::byte> image,
                std::span<const wire::CorrectionSymbol> symbols, unsigned cores = 1,
                std::chrono::milliseconds limit = test_bounds::kBareKernel);

 private:
  struct Mailbox;
  Mailbox& mailbox();
  void start(const std::string& boot_elf);
  void stop();
  std::uint64_t load(const std::string& name, std::span<const std::byte> image);
  void write_correction(std::span<const wire::CorrectionSymbol> symbols);
  void wait(std::chrono::milliseconds limit);
  RunResult run_core(const wire::ImageHeader& image, std::uint64_t text, unsigned core, unsigned cores,
                     std::uint64_t correction_bytes, std::chrono::milliseconds limit);

  int memory_fd_ = -1;
  std::byte* memory_ = nullptr;
  int process_ = -1;
  std::map<std::string, std::uint64_t> loaded_;  // name to offset of text
};

}  // namespace kernel_test
