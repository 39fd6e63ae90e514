// SPDX-License-Identifier: Apache-2.0
// POST codes: one per boot step, shown in every window header as soon as the window exists, and on the console before.
#pragma once

#include <cstdint>
#include <string_view>

namespace wire {

enum class PostCode : std::uint32_t {
  None = 0x00,
  Entry = 0x01,
  DeviceTree = 0x02,
  Memory = 0x03,
  PciScan = 0x04,
  Interrupts = 0x05,
  Slots = 0x06,
  RegionPool = 0x07,
  Functions = 0x08,
  Cores = 0x09,
  SelfTest = 0x0a,
  Ready = 0x80,
  Failed = 0xe0,
  Panic = 0xff,
};

constexpr std::string_view name(PostCode code) {
  switch (code) {
    case PostCode::None: return "none";
    case PostCode::Entry: return "entry";
    case PostCode::DeviceTree: return "device tree";
    case PostCode::Memory: return "memory";
    case PostCode::PciScan: return "PCIe scan";
    case PostCode::Interrupts: return "interrupts";
    case PostCode::Slots: return "slots";
    case PostCode::RegionPool: return "region pool";
    case PostCode::Functions: return "functions";
    case PostCode::Cores: return "cores";
    case PostCode::SelfTest: return "self-test";
    case PostCode::Ready: return "ready";
    case PostCode::Failed: return "failed";
    case PostCode::Panic: return "panic";
  }
  return "unknown POST code";
}

}  // namespace wire
