// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "qemu/machine_options.hpp"

namespace qemu {

/// Numbers of the descriptors that the emulator inherits.
struct InheritedDescriptors {
  int qmp = -1;            ///< stream socket
  int console = -1;        ///< write end of a pipe
  std::vector<int> slots;  ///< stream sockets, ivshmem server at the other end
};

/// The emulator's name of a root port, to plug windows into.
[[nodiscard]] std::string port_name(unsigned port);

/// The emulator's argv[1…]. Pure: same input, same output. The machine always starts stopped (-S).
[[nodiscard]] std::vector<std::string> command_line(const MachineOptions& options,
                                                    const InheritedDescriptors& descriptors);

}  // namespace qemu
