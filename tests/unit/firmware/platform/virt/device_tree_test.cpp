// SPDX-License-Identifier: Apache-2.0
#include "firmware/platform/virt/device_tree.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace virt {
namespace {

using Bytes = std::vector<std::byte>;

void put32(Bytes& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::byte>(value >> shift));
}
void set32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(value >> (24 - 8 * i));
}

// Writes trees as the emulator does (Devicetree Specification, chapter 5).
class Builder {
 public:
  Builder& begin(const std::string& name) {
    put32(structure_, 1);
    text(structure_, name);
    return *this;
  }
  Builder& end() {
    put32(structure_, 2);
    return *this;
  }
  Builder& property(const std::string& name, const Bytes& value) {
    put32(structure_, 3);
    put32(structure_, static_cast<std::uint32_t>(value.size()));
    put32(structure_, static_cast<std::uint32_t>(strings_.size()));
    for (const char c : name + '\0') strings_.push_back(static_cast<std::byte>(c));
    structure_.insert(structure_.end(), value.begin(), value.end());
    while (structure_.size() % 4 != 0) structure_.push_back({});
    return *this;
  }
  Builder& cells(const std::string& name, std::initializer_list<std::uint64_t> values) {
    Bytes value;
    for (const std::uint64_t v : values) {
      put32(value, static_cast<std::uint32_t>(v >> 32));
      put32(value, static_cast<std::uint32_t>(v));
    }
    return property(name, value);
  }
  Builder& nop() {
    put32(structure_, 4);
    return *this;
  }
  [[nodiscard]] Bytes finish() {
    put32(structure_, 9);
    Bytes tree;
    const auto structure = static_cast<std::uint32_t>(structure_.size());
    const auto strings = static_cast<std::uint32_t>(strings_.size());
    for (const std::uint32_t word : {0xd00dfeedu, 56 + structure + strings, 56u, 56 + structure, 40u, 17u, 16u, 0u,
                                     strings, structure, 0u, 0u, 0u, 0u}) {
      put32(tree, word);
    }
    tree.insert(tree.end(), structure_.begin(), structure_.end());
    tree.insert(tree.end(), strings_.begin(), strings_.end());
    return tree;
  }

 private:
  static void text(Bytes& bytes, const std::string& string) {
    for (const char c : string) bytes.push_back(static_cast<std::byte>(c));
    bytes.push_back({});
    while (bytes.size() % 4 != 0) bytes.push_back({});
  }
  Bytes structure_, strings_;
};

Bytes pcie_ranges() {
  Bytes value;
  const auto entry = [&](std::uint32_t space, std::uint64_t bus, std::uint64_t cpu, std::uint64_t bytes) {
    put32(value, space);
    for (const std::uint64_t v : {bus, cpu, bytes}) {
      put32(value, static_cast<std::uint32_t>(v >> 32));
      put32(value, static_cast<std::uint32_t>(v));
    }
  };
  entry(0x0100'0000, 0, 0x300'0000, 0x1'0000);
  entry(0x0200'0000, 0x4000'0000, 0x4000'0000, 0x4000'0000);
  entry(0x0300'0000, 0x1c'0000'0000, 0x1c'0000'0000, 0x4'0000'0000);
  return value;
}

Bytes text_value(const std::string& text) {
  Bytes value;
  for (const char c : text + '\0') value.push_back(static_cast<std::byte>(c));
  return value;
}

Bytes good_tree() {
  Builder tree;
  tree.begin("").cells("#address-cells", {2}).nop();
  tree.begin("memory@80000000").cells("reg", {0x8000'0000, 98ull << 30}).end();
  tree.begin("chosen").property("bootargs", text_value("vfs=3 selftest=1")).end();
  tree.begin("cpus")
      .begin("cpu@0")
      .end()
      .begin("cpu@1")
      .begin("interrupt-controller")
      .end()
      .end()
      .begin("cpu-map")
      .end()
      .end();
  tree.begin("soc")
      .begin("pci@30000000")
      .cells("reg", {0x3000'0000, 0x1000'0000})
      .property("ranges", pcie_ranges())
      .end()
      .end();
  return tree.end().finish();
}

TEST(DeviceTree, AGoodTreeSaysWhatTheBoardIs) {
  const Bytes tree = good_tree();
  const auto board = read_device_tree(tree);
  ASSERT_TRUE(board) << name(board.error());
  EXPECT_EQ(board->memory.base, 0x8000'0000u);
  EXPECT_EQ(board->memory.bytes, 98ull << 30);
  EXPECT_EQ(board->harts, 2u) << "cpu-map is none";
  EXPECT_EQ(board->boot_arguments, "vfs=3 selftest=1");
  EXPECT_EQ(board->pcie_config.base, 0x3000'0000u);
  EXPECT_EQ(board->pcie_window32.base, 0x4000'0000u);
  EXPECT_EQ(board->pcie_window64.base, 0x1c'0000'0000u);
  EXPECT_EQ(board->pcie_window64.bytes, 0x4'0000'0000u);
}

TEST(DeviceTree, EveryTruncationIsRefused) {
  const Bytes tree = good_tree();
  for (std::size_t size = 0; size < tree.size(); ++size) {
    // Exactly so much memory, so that the sanitizer sees a read behind it.
    const auto copy = std::make_unique<std::byte[]>(size);
    std::memcpy(copy.get(), tree.data(), size);
    EXPECT_FALSE(read_device_tree({copy.get(), size})) << size;
    if (size < kDeviceTreeHeaderBytes) continue;
    Bytes shortened(copy.get(), copy.get() + size);
    set32(shortened, 4, static_cast<std::uint32_t>(size));
    EXPECT_FALSE(read_device_tree(shortened)) << size << " with a total that agrees";
  }
}

TEST(DeviceTree, HeadersThatContradictThemselvesAreRefused) {
  const std::uint32_t values[] = {0, 1, 38, 0x7fff'ffff, 0x8000'0000, 0xffff'fffc, 0xffff'ffff};
  for (const std::size_t word : {0u, 1u, 2u, 3u, 5u, 6u, 8u, 9u}) {
    for (const std::uint32_t value : values) {
      Bytes tree = good_tree();
      set32(tree, word * 4, value);
      const auto board = read_device_tree(tree);
      const bool harmless = word == 5 || word == 6;  // a later version that is compatible with ours
      if (!harmless) EXPECT_FALSE(board) << "word " << word << " = " << value;
    }
  }
}

TEST(DeviceTree, AnyChangeOfOneByteIsSurvived) {
  const Bytes good = good_tree();
  std::mt19937 random(3);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int i = 0; i < 8; ++i) {
      const auto copy = std::make_unique<std::byte[]>(good.size());
      std::memcpy(copy.get(), good.data(), good.size());
      copy[at] = i == 0 ? std::byte{0} : i == 1 ? std::byte{0xff} : static_cast<std::byte>(random());
      (void)read_device_tree({copy.get(), good.size()});
    }
  }
}

TEST(DeviceTree, NoiseIsSurvived) {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    Bytes tree(40 + random() % 400);
    for (std::byte& byte : tree) byte = static_cast<std::byte>(random() % 10);
    set32(tree, 0, 0xd00dfeed);
    set32(tree, 4, static_cast<std::uint32_t>(tree.size()));
    set32(tree, 20, 17);
    set32(tree, 24, 16);
    set32(tree, 8, 40);
    set32(tree, 36, static_cast<std::uint32_t>(tree.size() - 40));
    set32(tree, 12, 40);
    set32(tree, 32, static_cast<std::uint32_t>(tree.size() - 40));
    EXPECT_FALSE(read_device_tree(tree));
  }
}

TEST(DeviceTree, TooDeepATreeIsRefused) {
  Builder tree;
  for (int i = 0; i < 100; ++i) tree.begin("n");
  for (int i = 0; i < 100; ++i) tree.end();
  EXPECT_EQ(read_device_tree(tree.finish()).error(), DeviceTreeError::kBadStructure);
}

TEST(DeviceTree, UnbalancedNodesAreRefused) {
  EXPECT_EQ(read_device_tree(Builder().begin("").finish()).error(), DeviceTreeError::kBadStructure);
  EXPECT_EQ(read_device_tree(Builder().begin("").end().end().finish()).error(), DeviceTreeError::kBadStructure);
  EXPECT_EQ(read_device_tree(Builder().cells("reg", {1, 2}).finish()).error(), DeviceTreeError::kBadStructure);
}

TEST(DeviceTree, WhatIsMissingIsNamed) {
  EXPECT_EQ(read_device_tree(Builder().begin("").end().finish()).error(), DeviceTreeError::kNoMemory);
  Builder memory;
  memory.begin("").begin("memory@80000000").cells("reg", {0x8000'0000, 1}).end();
  EXPECT_EQ(read_device_tree(Builder(memory).end().finish()).error(), DeviceTreeError::kNoHarts);
  memory.begin("cpus").begin("cpu@0").end().end();
  EXPECT_EQ(read_device_tree(memory.end().finish()).error(), DeviceTreeError::kNoPcie);
}

TEST(DeviceTree, ARangeThatWrapsAroundIsNotTaken) {
  Builder tree;
  tree.begin("").begin("memory@80000000").cells("reg", {0x8000'0000, ~std::uint64_t{0}}).end().end();
  EXPECT_EQ(read_device_tree(tree.finish()).error(), DeviceTreeError::kNoMemory);
}

}  // namespace
}  // namespace virt
