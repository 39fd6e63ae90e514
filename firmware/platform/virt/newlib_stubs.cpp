// SPDX-License-Identifier: Apache-2.0
// What newlib and libc++ expect from an operating system. There is none: the C library serves for memory and string
// functions and integer snprintf, and whatever asks for more (heap, files, processes) is a programming error that ends
// in a panic naming the call.
#include <sys/stat.h>
#include <sys/types.h>

#include <__verbose_abort>
#include <cstddef>
#include <new>

#include "firmware/hal/hart.hpp"

extern "C" {

// libc++ hardening (toolchain/libcxx/__assertion_handler) and assert() end here.
[[noreturn]] void fw_assert_failed(const char* message) { hal::panic(message); }
[[noreturn]] void __assert_func(const char* /*file*/, int /*line*/, const char* /*function*/, const char* expression) {
  fw_assert_failed(expression);
}
[[noreturn]] void __cxa_pure_virtual() { hal::panic("pure virtual function called"); }
[[noreturn]] void abort() { hal::panic("abort()"); }

void* _sbrk(std::ptrdiff_t /*increment*/) { hal::panic("malloc: the firmware has no heap"); }
ssize_t _write(int /*file*/, const void* /*data*/, std::size_t /*bytes*/) { hal::panic("_write: use hal::log"); }
ssize_t _read(int /*file*/, void* /*data*/, std::size_t /*bytes*/) { hal::panic("_read: no files"); }
int _close(int /*file*/) { hal::panic("_close: no files"); }
off_t _lseek(int /*file*/, off_t /*offset*/, int /*whence*/) { hal::panic("_lseek: no files"); }
int _fstat(int /*file*/, struct stat* /*status*/) { hal::panic("_fstat: no files"); }
int _isatty(int /*file*/) { hal::panic("_isatty: no files"); }
int _getpid() { hal::panic("_getpid: no processes"); }
int _kill(int /*process*/, int /*signal*/) { hal::panic("_kill: no processes"); }
[[noreturn]] void _exit(int /*status*/) { hal::panic("_exit: use hal::exit"); }

}  // extern "C"

// Destructors that could be reached through a base class refer to these even when nothing is ever deleted.
void operator delete(void* /*object*/) noexcept { hal::panic("operator delete: the firmware has no heap"); }
void operator delete(void* /*object*/, std::size_t /*bytes*/) noexcept {
  hal::panic("operator delete: the firmware has no heap");
}

// What libc++ does instead of throwing, for example expected::value() without a value.
void std::__libcpp_verbose_abort(const char* format, ...) { hal::panic(format); }
