// SPDX-License-Identifier: Apache-2.0
// A kernel for the native card, played on its hart: C = A + B on 16-bit integers in stick layout, as the correction
// tensor of each launch says where and how much. B has strides for both dimensions, so that it may be broadcast along
// M. What is tested is everything around the kernel: addresses, extents and strides of each tile.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shared/kernel_abi.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp::test {

inline std::shared_ptr<const Kernel> sum_kernel() {
  const auto image = make_image();
  const std::string text = R"({"format": 1, "name": "sum", "image_bytes": )" + std::to_string(image.size()) +
                           R"(, "image_crc32c": )" + std::to_string(crc_of(image)) +
                           R"(, "scratchpad_bytes": 0, "correction_bytes": 512, "operands": [
    {"name": "a", "access": "read", "dtype": "dl16", "layout": "stick", "shape": ["M", "N"]},
    {"name": "b", "access": "read", "dtype": "dl16", "layout": "stick", "shape": ["M", "N"]},
    {"name": "c", "access": "write", "dtype": "dl16", "layout": "stick", "shape": ["M", "N"]}],
  "symbols": [
    {"kind": "address", "operand": 0}, {"kind": "stride", "operand": 0, "dimension": "N"},
    {"kind": "address", "operand": 1}, {"kind": "stride", "operand": 1, "dimension": "N"},
    {"kind": "stride", "operand": 1, "dimension": "M"},
    {"kind": "address", "operand": 2}, {"kind": "stride", "operand": 2, "dimension": "N"},
    {"kind": "dimension", "operand": 0, "dimension": "M"}, {"kind": "dimension", "operand": 0, "dimension": "N"}],
  "functions": []})";
  return Kernel::from_memory(image, text);
}

class PlayedSum {
 public:
  struct Extents {
    std::uint64_t m, n;
    friend bool operator==(const Extents&, const Extents&) = default;
  };

  native::KernelPlayer player() {
    return [this](hal::Context& context, std::uint64_t) { return play(context); };
  }
  std::atomic<const NativeCard*> card{nullptr};            // set before a kernel runs
  std::atomic<std::uint64_t> tiles{0};                     // that began
  std::atomic<std::uint64_t> fails_at{~std::uint64_t{0}};  // this one exits with status 5
  std::atomic<bool> counts_only{false};                    // computes nothing
                                                           // The card stops in front of this tile until it is let go.
  std::atomic<std::uint64_t> holds_at{~std::uint64_t{0}};

  void await_held() { held_.wait(false); }  // bounded: the tiles before it end by themselves
  void let_go() {
    let_go_ = true;
    let_go_.notify_all();
  }

  std::vector<Extents> seen() const {
    const std::lock_guard guard(mutex_);
    return seen_;
  }

 private:
  enum Symbol : unsigned { kA, kStrideA, kB, kStrideB, kRowB, kC, kStrideC, kM, kN, kSymbols };
  struct Tensor {
    std::uint64_t address, column, row;
  };

  // The card maps memory when a kernel first touches it: then the kernel is run again.
  struct NotMapped {
    std::uint64_t address;
  };

  hal::Stop play(hal::Context& context) {
    std::uint64_t& runs = context.integer[10];  // ours, zero at the start
    const std::uint64_t tile = runs++ == 0 ? tiles.fetch_add(1) : tiles - 1;
    if (runs == 1 && tile == holds_at) hold();
    hal::Stop stop{};
    stop.reason = hal::StopReason::Exit;
    stop.ran_ticks = 1;
    if (tile == fails_at) {
      stop.argument = 5;
    } else if (!counts_only) {
      try {
        add(context.integer[0], context.integer[3]);
      } catch (const NotMapped& missing) {
        stop.reason = hal::StopReason::Fault;
        stop.status = wire::Status::StoreFault;
        stop.access = hal::Access::Store;
        stop.address = missing.address;
        stop.pc = context.integer[1];
      }
    }
    return stop;
  }

  void hold() {
    held_ = true;
    held_.notify_all();
    let_go_.wait(false);  // bounded: the test lets it go
  }

  std::byte* place(std::uint64_t root, std::uint64_t address) const {
    std::byte* const at = card.load()->board().translate(root, address);
    if (at == nullptr) throw NotMapped{address};
    return at;
  }
  template <typename T>
  T read(std::uint64_t root, std::uint64_t address) const {
    T value;
    std::memcpy(&value, place(root, address), sizeof value);
    return value;
  }

  void add(std::uint64_t root, std::uint64_t arguments_at) {
    const auto arguments = read<wire::KernelArguments>(root, arguments_at);
    const auto header = read<wire::CorrectionHeader>(root, arguments.correction_address);
    std::uint64_t value[kSymbols];
    for (unsigned i = 0; i < kSymbols; ++i) {
      const auto symbol = read<wire::CorrectionSymbol>(
          root, arguments.correction_address + sizeof header + i * sizeof(wire::CorrectionSymbol));
      value[i] = symbol.value;
      if (symbol.kind != wire::SymbolKind::Address) continue;
      for (unsigned window = 0; window < wire::kRegionsPerFunction; ++window) {
        if (header.region[window].region_id == symbol.region_id) value[i] += wire::region_window(window);
      }
    }
    const Tensor a{value[kA], value[kStrideA], wire::kStickBytes};
    const Tensor b{value[kB], value[kStrideB], value[kRowB]};
    const Tensor c{value[kC], value[kStrideC], wire::kStickBytes};
    const auto at = [&](const Tensor& t, std::uint64_t row, std::uint64_t column) {
      return reinterpret_cast<std::uint16_t*>(
          place(root, t.address + column / 64 * t.column + row * t.row + column % 64 * 2));
    };
    for (std::uint64_t row = 0; row < value[kM]; ++row) {
      for (std::uint64_t column = 0; column < value[kN]; ++column) {
        *at(c, row, column) = static_cast<std::uint16_t>(*at(a, row, column) + *at(b, row, column));
      }
    }
    const std::lock_guard guard(mutex_);
    seen_.push_back({value[kM], value[kN]});
  }

  std::atomic<bool> held_{false};
  std::atomic<bool> let_go_{false};
  mutable std::mutex mutex_;
  std::vector<Extents> seen_;
};

}  // namespace svp::test
