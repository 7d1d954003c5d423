#pragma once

#include <vector>

namespace fakecuda {

/// Hides the fake's own bookkeeping from ThreadSanitizer: neither its accesses nor its locks and counters are
/// seen. Every entry point and every worker runs in such a scope, so that of the fake only those
/// happens-before edges exist that CUDA promises, made one by one with `release_edge` and `acquire_edge`.
/// Does nothing in a build without ThreadSanitizer.
class Hidden {
 public:
  Hidden();
  ~Hidden();
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
};

/// Within a hidden scope: seen again, for the work that the program asked for.
class Exposed {
 public:
  Exposed();
  ~Exposed();
  Exposed(const Exposed&) = delete;
  Exposed& operator=(const Exposed&) = delete;

 private:
  int depth_;
};

/// What this thread did before is seen by who acquires the same address later.
void release_edge(const void* address);
void acquire_edge(const void* address);

/// Logical threads for ThreadSanitizer, run by one real thread, without edges between them.
class Fibers {
 public:
  Fibers() = default;
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  void make(std::size_t count);

  /// Runs `body` as fiber `index`, exposed.
  template <typename Body>
  void run(std::size_t index, Body body) {
    const Exposed exposed;
    void* caller = enter(index);
    body();
    leave(caller);
  }

 private:
  void* enter(std::size_t index) const;
  static void leave(void* caller);

  std::vector<void*> fibers_;
};

}  // namespace fakecuda
