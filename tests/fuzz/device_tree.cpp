// SPDX-License-Identifier: Apache-2.0
// The flattened device tree that the emulator hands to the firmware.
#include "firmware/platform/virt/device_tree.hpp"

#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/mutate.hpp"

namespace {

void put32(std::byte* at, std::size_t value) {
  for (int i = 3; i >= 0; --i, value >>= 8) at[i] = static_cast<std::byte>(value & 0xff);
}

bool in_range(const virt::AddressRange& range) { return range.bytes <= ~std::uint64_t{0} - range.base; }

}  // namespace

// Half of the inputs get a header that lets the parser reach the structure: magic and total size.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size < virt::kDeviceTreeHeaderBytes || seed % 2 != 0) return size;
  auto* bytes = reinterpret_cast<std::byte*>(data);
  put32(bytes, 0xd00dfeed);
  put32(bytes + 4, size);
  put32(bytes + 20, 17);
  put32(bytes + 24, 16);
  return size;
}

void fuzz::run(Input input) {
  // A copy with nothing around it: a read beyond the tree is seen by the sanitizer.
  const auto bytes = input.rest();
  const std::vector<std::byte> tree(bytes.begin(), bytes.end());
  const auto board = virt::read_device_tree(tree);
  if (!board) {
    require(std::string_view(virt::name(board.error())).starts_with("device tree: "), "an error has a name");
    return;
  }
  require(board->harts != 0 && board->memory.bytes != 0, "a board has memory and harts");
  for (const auto& range : {board->memory, board->pcie_config, board->pcie_window32, board->pcie_window64}) {
    require(in_range(range), "no range wraps around");
  }
  const char* text = board->boot_arguments.data();
  require(board->boot_arguments.empty() ||
              (text >= reinterpret_cast<const char*>(tree.data()) &&
               text + board->boot_arguments.size() <= reinterpret_cast<const char*>(tree.data() + tree.size())),
          "the boot arguments lie inside the tree");
}
