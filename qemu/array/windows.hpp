// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The windows of functions: files that the emulator has mapped for the devices of its PCI bus, where the plugin
// interface does not lead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace svp::array {

class Windows {
 public:
  Windows() = default;
  ~Windows() { clear(); }
  Windows(Windows&&) noexcept = default;  // of a vector: the other one is empty afterwards
  Windows& operator=(Windows&& other) noexcept {
    windows_.swap(other.windows_);
    return *this;
  }

  // The window of `bytes` at the physical address `address` is the shared mapping of this process that has `nonce` at
  // byte `nonce_at`. Its pages are mapped once more, so that they stay there when the emulator unplugs the window in
  // the middle of a move. False: there is no such mapping, or no memory for another one.
  bool show(std::uint64_t address, std::uint64_t bytes, std::uint64_t nonce_at, std::uint64_t nonce);
  void hide(std::uint64_t address);
  void clear();

  // Null when not all of the range lies in one window.
  std::byte* at(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Window {
    std::uint64_t address;
    std::uint64_t bytes;
    std::byte* memory;
  };
  std::vector<Window> windows_;
};

}  // namespace svp::array
