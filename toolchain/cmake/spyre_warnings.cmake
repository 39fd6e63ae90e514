# SPDX-License-Identifier: Apache-2.0
# One list of warnings for the host, the firmware and the kernels.
set(SPYRE_WARNINGS
  -Wall -Wextra -Werror
  -Wshadow -Wconversion -Wno-sign-conversion -Wextra-semi -Wnon-virtual-dtor -Woverloaded-virtual
  -Wimplicit-fallthrough -Wcast-qual -Wformat=2 -Wundef -Wthread-safety)
