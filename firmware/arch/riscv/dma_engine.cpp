// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/dma_engine.hpp"

#include <atomic>

#include "shared/window.hpp"

extern "C" {
alignas(wire::kStickBytes) constinit wire::array::Move riscv_array_move{};
}

namespace riscv::dma_engine {
namespace {

// Of rows of so many elements, in one move; 0: not even one.
std::uint64_t most_rows(std::uint64_t elements, unsigned element_bytes, bool dense) {
  using namespace wire::array;
  const std::uint64_t most = dense ? kMaxMoveBytes / element_bytes : kMaxElements;
  return elements == 0 ? 0 : std::min(most / elements, kMaxElements);
}

}  // namespace

std::uint64_t copy_rows(hal::ElementRows to, hal::ElementRows from, std::uint64_t elements, std::uint64_t rows,
                        unsigned element_bytes) {
  const bool dense = to.step == element_bytes && from.step == element_bytes;
  const std::uint64_t most = most_rows(elements, element_bytes, dense);
  riscv_array_move.element_bytes = element_bytes;
  riscv_array_move.elements = elements;
  riscv_array_move.to_step = to.step;
  riscv_array_move.from_step = from.step;
  riscv_array_move.to_row_step = to.row_step;
  riscv_array_move.from_row_step = from.row_step;
  std::uint64_t done = 0;
  while (most != 0 && done < rows) {
    const std::uint64_t part = std::min(rows - done, most);
    const auto row = static_cast<std::int64_t>(done);
    riscv_array_move.to = reinterpret_cast<std::uint64_t>(to.first + row * to.row_step);
    riscv_array_move.from = reinterpret_cast<std::uint64_t>(from.first + row * from.row_step);
    riscv_array_move.rows = part;
    if (!carry_out(wire::array::MoveKind::Elements)) break;
    done += part;
  }
  return done;
}

void show(std::byte* window, std::uint64_t bytes) {
  if (!is_there() || bytes < sizeof(wire::WindowHeader)) return;
  if (!carry_out(wire::array::MoveKind::Nonce)) return;
  const std::atomic_ref nonce(reinterpret_cast<wire::WindowHeader*>(window)->array_nonce);
  nonce.store(riscv_array_move.pattern);
  riscv_array_move.to = reinterpret_cast<std::uint64_t>(window);
  riscv_array_move.bytes = bytes;
  riscv_array_move.from = offsetof(wire::WindowHeader, array_nonce);
  (void)carry_out(wire::array::MoveKind::Show);  // refused: the engine refuses each move from and to this window
  nonce.store(0);
  riscv_array_move.pattern = 0;  // nothing random stays: a boot on the instruction clock is replayed bit for bit
}

void hide(const std::byte* window) {
  if (!is_there()) return;
  riscv_array_move.to = reinterpret_cast<std::uint64_t>(window);
  (void)carry_out(wire::array::MoveKind::Hide);
}

}  // namespace riscv::dma_engine
