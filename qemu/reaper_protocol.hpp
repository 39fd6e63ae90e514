// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// What the owner (spawn.cpp) and the reaper (reaper.cpp, an own freestanding program) agree on.
namespace qemu::reaper {

/// Descriptors that the reaper is started with. The emulator inherits 0, 1, 2 and everything from kFirstInherited on,
/// under unchanged numbers.
enum Descriptor : int {
  kNull = 0,         ///< /dev/null
  kErrorOutput = 1,  ///< also 2: pipe to the owner
  kLink = 3,         ///< SOCK_SEQPACKET to the owner: carries Reports; its end means that the owner is gone
  kOwner = 4,        ///< pidfd of the owner: readable when the process is gone, whoever still holds the link
  kImage = 5,        ///< the reaper's own program file
  kFirstInherited = 6,
};

/// argv of the reaper: name, number of inherited descriptors, emulator path, emulator argv[1…].
inline constexpr int kInheritedCountArgument = 1;
inline constexpr int kEmulatorArgument = 2;

enum class ReportKind : std::uint32_t {
  kStarted = 1,   ///< value: pid of the emulator; its pidfd comes along (SCM_RIGHTS)
  kFailed = 2,    ///< value: errno of the step that failed (exec almost always); the reaper ends
  kExited = 3,    ///< value: exit code
  kSignaled = 4,  ///< value: signal number
};

struct Report {
  ReportKind kind;
  std::int32_t value;
};
static_assert(sizeof(Report) == 8);

}  // namespace qemu::reaper
