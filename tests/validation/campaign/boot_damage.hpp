// SPDX-License-Identifier: Apache-2.0
// Damage that a card finds when it boots: the emulator's loader puts it into the firmware's persistent memory before
// each boot (firmware/core/boot.cpp, behind the start-up code's 64 KiB).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace svp::campaign {

inline constexpr std::uint64_t kPersistentAt = 0x8201'0000;
inline constexpr std::uint64_t kPersistentMagic = 0x3353'5245'5059'5353;
inline constexpr std::uint64_t kPersistentVersion = 4;
// Of its fields; the checksum (4 bytes) stands at 12.
inline constexpr std::uint64_t kMagicOffset = 0, kVersionOffset = 8, kBootEpochOffset = 16;

// Emulator arguments that put the low `bytes` of `value` there.
inline std::vector<std::string> put_into_persistent(std::uint64_t offset, std::uint64_t value, unsigned bytes) {
  return {"-device", "loader,addr=" + std::to_string(kPersistentAt + offset) + ",data=" + std::to_string(value) +
                         ",data-len=" + std::to_string(bytes)};
}

inline void append(std::vector<std::string>& arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

// Persistent memory that is not whole, by what is wrong with it.
inline std::vector<std::string> wrong_magic() { return put_into_persistent(kMagicOffset, kPersistentMagic + 1, 8); }
inline std::vector<std::string> wrong_version() {
  auto arguments = put_into_persistent(kMagicOffset, kPersistentMagic, 8);
  append(arguments, put_into_persistent(kVersionOffset, kPersistentVersion - 1, 4));
  return arguments;
}
inline std::vector<std::string> wrong_checksum() {
  auto arguments = put_into_persistent(kMagicOffset, kPersistentMagic, 8);
  append(arguments, put_into_persistent(kVersionOffset, kPersistentVersion, 4));
  append(arguments, put_into_persistent(kBootEpochOffset, 9, 8));
  return arguments;
}

}  // namespace svp::campaign
