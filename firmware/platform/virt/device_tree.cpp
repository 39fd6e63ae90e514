// SPDX-License-Identifier: Apache-2.0
#include "firmware/platform/virt/device_tree.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace virt {

namespace {

constexpr std::uint32_t kMagic = 0xd00dfeed;
constexpr std::uint32_t kVersion = 17;
enum Token : std::uint32_t { kBeginNode = 1, kEndNode = 2, kProperty = 3, kNop = 4, kEnd = 9 };
constexpr std::size_t kDeepest = 8;

// Words of the header, in 32-bit units.
constexpr std::size_t kTotalSize = 1, kStructureOffset = 2, kStringsOffset = 3, kHeaderVersion = 5,
                      kCompatibleVersion = 6, kStringsSize = 8, kStructureSize = 9;

std::uint32_t big_endian32(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + i]);
  return value;
}

std::uint64_t cells(std::span<const std::byte> bytes, std::size_t at) {
  return std::uint64_t{big_endian32(bytes, at)} << 32 | big_endian32(bytes, at + 4);
}

// The zero-terminated text at `at`; none when it does not end inside.
std::optional<std::string_view> text_at(std::span<const std::byte> bytes, std::size_t at) {
  if (at >= bytes.size()) return std::nullopt;
  const auto* first = reinterpret_cast<const char*>(bytes.data());
  const auto* begin = first + at;
  const auto* end = std::find(begin, first + bytes.size(), '\0');
  if (end == first + bytes.size()) return std::nullopt;
  return std::string_view(begin, end);
}

bool is_node(std::string_view node, std::string_view name) {
  return node.starts_with(name) && (node.size() == name.size() || node[name.size()] == '@');
}

// Collects the board from properties as they come. Paths on this board: /memory@…, /cpus/cpu@…, /chosen,
// /soc/pci@…; all with two address and two size cells, and 3 + 2 + 2 cells per entry in the ranges of the PCIe host.
class Collector {
 public:
  void enter(std::span<const std::string_view> path) {
    if (path.size() == 3 && path[1] == "cpus" && is_node(path[2], "cpu")) ++board_.harts;
  }

  void property(std::span<const std::string_view> path, std::string_view property, std::span<const std::byte> value) {
    if (path.size() == 2 && is_node(path[1], "memory") && property == "reg") {
      take_range(value, board_.memory);
    } else if (path.size() == 2 && path[1] == "chosen" && property == "bootargs") {
      board_.boot_arguments = text_at(value, 0).value_or(std::string_view());
    } else if (path.size() == 3 && path[1] == "soc" && is_node(path[2], "pci")) {
      if (property == "reg") take_range(value, board_.pcie_config);
      if (property == "ranges") take_windows(value);
    }
  }

  [[nodiscard]] std::expected<BoardDescription, DeviceTreeError> result() const {
    if (board_.memory.bytes == 0) return std::unexpected(DeviceTreeError::kNoMemory);
    if (board_.harts == 0) return std::unexpected(DeviceTreeError::kNoHarts);
    if (board_.pcie_config.bytes == 0 || board_.pcie_window32.bytes == 0 || board_.pcie_window64.bytes == 0) {
      return std::unexpected(DeviceTreeError::kNoPcie);
    }
    return board_;
  }

 private:
  static void take(std::uint64_t base, std::uint64_t bytes, AddressRange& range) {
    if (bytes <= ~std::uint64_t{0} - base) range = {base, bytes};
  }

  static void take_range(std::span<const std::byte> value, AddressRange& range) {
    if (value.size() >= 16) take(cells(value, 0), cells(value, 8), range);
  }

  // PCI bus binding: the first cell's bits 25:24 are the space, 2 = 32-bit memory, 3 = 64-bit memory.
  void take_windows(std::span<const std::byte> value) {
    constexpr std::size_t kEntryBytes = 7 * 4;
    for (std::size_t at = 0; value.size() - at >= kEntryBytes; at += kEntryBytes) {
      const std::uint32_t space = big_endian32(value, at) >> 24 & 3;
      const std::uint64_t bus = cells(value, at + 4);
      const std::uint64_t cpu = cells(value, at + 12);
      if (bus != cpu) continue;  // a translating host bridge is not what this board has
      if (space == 2) take(cpu, cells(value, at + 20), board_.pcie_window32);
      if (space == 3) take(cpu, cells(value, at + 20), board_.pcie_window64);
    }
  }

  BoardDescription board_;
};

// Walks the structure block and reports to the collector. False when anything leaves the block.
class Walker {
 public:
  Walker(std::span<const std::byte> structure, std::span<const std::byte> strings, Collector& collector)
      : structure_(structure), strings_(strings), collector_(collector) {}

  bool walk() {
    while (structure_.size() - at_ >= 4) {
      const std::uint32_t token = big_endian32(structure_, at_);
      at_ += 4;
      if (token == kEnd) return depth_ == 0;
      const bool good = token == kBeginNode  ? begin_node()
                        : token == kProperty ? property()
                        : token == kEndNode  ? end_node()
                                             : token == kNop;
      if (!good) return false;
    }
    return false;
  }

 private:
  bool begin_node() {
    const auto name = text_at(structure_, at_);
    if (!name || depth_ == kDeepest) return false;
    path_[depth_++] = *name;
    collector_.enter(path());
    return advance(name->size() + 1);
  }

  bool end_node() { return depth_ > 0 && depth_-- > 0; }

  bool property() {
    if (depth_ == 0 || structure_.size() - at_ < 8) return false;
    const std::size_t bytes = big_endian32(structure_, at_);
    const auto name = text_at(strings_, big_endian32(structure_, at_ + 4));
    at_ += 8;
    if (!name || bytes > structure_.size() - at_) return false;
    collector_.property(path(), *name, structure_.subspan(at_, bytes));
    return advance(bytes);
  }

  // Tokens stand at multiples of 4.
  bool advance(std::size_t bytes) {
    const std::size_t padded = (bytes + 3) / 4 * 4;
    if (padded > structure_.size() - at_) return false;
    at_ += padded;
    return true;
  }

  [[nodiscard]] std::span<const std::string_view> path() const { return std::span(path_).first(depth_); }

  std::span<const std::byte> structure_;
  std::span<const std::byte> strings_;
  Collector& collector_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::array<std::string_view, kDeepest> path_;
};

std::optional<std::span<const std::byte>> block(std::span<const std::byte> tree, std::size_t offset_word,
                                                std::size_t size_word) {
  const std::size_t offset = big_endian32(tree, offset_word * 4);
  const std::size_t size = big_endian32(tree, size_word * 4);
  if (offset > tree.size() || size > tree.size() - offset) return std::nullopt;
  return tree.subspan(offset, size);
}

}  // namespace

const char* name(DeviceTreeError error) {
  switch (error) {
    case DeviceTreeError::kBadHeader: return "device tree: bad header";
    case DeviceTreeError::kBadStructure: return "device tree: damaged structure";
    case DeviceTreeError::kNoMemory: return "device tree: no memory node";
    case DeviceTreeError::kNoHarts: return "device tree: no harts";
    case DeviceTreeError::kNoPcie: return "device tree: no PCIe host with two memory windows";
  }
  return "device tree: unknown error";
}

std::size_t device_tree_bytes(std::span<const std::byte, kDeviceTreeHeaderBytes> header) {
  if (big_endian32(header, 0) != kMagic) return 0;
  const std::size_t bytes = big_endian32(header, kTotalSize * 4);
  return bytes >= kDeviceTreeHeaderBytes && bytes <= kMostDeviceTreeBytes ? bytes : 0;
}

std::expected<BoardDescription, DeviceTreeError> read_device_tree(std::span<const std::byte> tree) {
  const auto bad_header = std::unexpected(DeviceTreeError::kBadHeader);
  if (tree.size() < kDeviceTreeHeaderBytes) return bad_header;
  const std::size_t bytes = device_tree_bytes(tree.first<kDeviceTreeHeaderBytes>());
  if (bytes == 0 || bytes > tree.size()) return bad_header;
  tree = tree.first(bytes);
  if (big_endian32(tree, kHeaderVersion * 4) < kVersion || big_endian32(tree, kCompatibleVersion * 4) > kVersion) {
    return bad_header;
  }
  const auto structure = block(tree, kStructureOffset, kStructureSize);
  const auto strings = block(tree, kStringsOffset, kStringsSize);
  if (!structure || !strings) return bad_header;
  Collector collector;
  if (!Walker(*structure, *strings, collector).walk()) return std::unexpected(DeviceTreeError::kBadStructure);
  return collector.result();
}

}  // namespace virt
