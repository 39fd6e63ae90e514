// SPDX-License-Identifier: Apache-2.0
// Sv39 page tables (RISC-V privileged architecture, chapter "Sv39"), built through hal::pointer: the same code runs in
// unit tests. Rules that hold for every table built here, whatever the arguments:
//   * nothing below 16 GiB and nothing outside the lower half (256 GiB) is mapped;
//   * no page is writable and executable; all leaves are for U-mode, with accessed and dirty already set;
//   * a call that fails has changed nothing.
// Not thread-safe except fill() and allows(), which may race with everything but the table's end.
#pragma once

#include <cstdint>

#include "firmware/arch/riscv/page_arena.hpp"
#include "firmware/hal/address_space.hpp"

namespace riscv {

class Sv39Tables {
 public:
  static constexpr std::uint64_t kLowestAddress = std::uint64_t{1} << 34;
  static constexpr std::uint64_t kAddressLimit = std::uint64_t{1} << 38;
  static constexpr std::uint64_t kPhysicalLimit = std::uint64_t{1} << 56;

  constexpr explicit Sv39Tables(PageArena& arena) : arena_(arena) {}

  // See hal/address_space.hpp for what these promise.
  [[nodiscard]] std::uint64_t create_root();
  void destroy_root(std::uint64_t root);
  [[nodiscard]] bool map(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t physical, std::uint64_t bytes,
                         hal::Protection protection);

  // A window is made of whole 1 GiB entries. Its tables belong to the window and not to a root: destroy_root leaves
  // them, release_window frees them.
  [[nodiscard]] bool prepare_window(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t bytes);
  [[nodiscard]] bool share_window(std::uint64_t from_root, std::uint64_t to_root, std::uint64_t virtual_address,
                                  std::uint64_t bytes);
  void release_window(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t bytes);

  enum class Fill : std::uint8_t { kSet, kValidAlready, kNoWindow };
  [[nodiscard]] Fill fill(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t physical);

  // Whether a kernel's access that needs these rights is mapped now.
  [[nodiscard]] static bool allows(std::uint64_t root, std::uint64_t virtual_address, hal::Protection wanted);

  // Pages that hold tables now, roots included.
  [[nodiscard]] std::uint64_t table_pages() const { return table_pages_; }

 private:
  [[nodiscard]] std::uint64_t new_table();
  void free_table(std::uint64_t table);
  // One of the two passes of map(): counts the tables that are missing, or makes them and sets the leaves.
  struct Mapping;
  [[nodiscard]] bool check(const Mapping& mapping, std::uint64_t& missing_tables) const;
  void install(const Mapping& mapping);

  PageArena& arena_;
  std::uint64_t table_pages_ = 0;
};

}  // namespace riscv
