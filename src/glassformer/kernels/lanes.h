// Numbers that are computed side by side.

#pragma once

#include <cstdint>
#include <cstring>

using Size = int64_t;

constexpr Size LANES = 16;
constexpr Size SMALL = 1 << 15;  // operations that are not worth a second thread

typedef float Floats __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));
typedef int32_t Wholes __attribute__((vector_size(LANES * sizeof(int32_t))));

inline const Floats& lanes(const float* x) { return *reinterpret_cast<const Floats*>(x); }
inline Floats& lanes(float* x) { return *reinterpret_cast<Floats*>(x); }

// The sum of all lanes, by halves.
inline float sum(const Floats& x) {
  typedef float Half __attribute__((vector_size(LANES / 2 * sizeof(float))));
  typedef float Quarter __attribute__((vector_size(LANES / 4 * sizeof(float))));
  Half halves[2];
  std::memcpy(halves, &x, sizeof(x));
  halves[0] += halves[1];
  Quarter quarters[2];
  std::memcpy(quarters, halves, sizeof(quarters));
  quarters[0] += quarters[1];
  return (quarters[0][0] + quarters[0][2]) + (quarters[0][1] + quarters[0][3]);
}

inline float dot(const float* x, const float* y, Size count) {
  Floats total = {};
  Size i = 0;
  for (; i + LANES <= count; i += LANES) total += lanes(x + i) * lanes(y + i);
  float rest = 0;
  for (; i < count; i++) rest += x[i] * y[i];
  return sum(total) + rest;
}

inline bool is_finite(const float* x, Size count) {
  Floats nothing = {};  // stays so, unless something is NaN or infinite
  Size i = 0;
  for (; i + LANES <= count; i += LANES) nothing += lanes(x + i) * 0.f;
  float rest = 0;
  for (; i < count; i++) rest += x[i] * 0.f;
  return sum(nothing) + rest == 0;
}

// The largest number of a row; at least `least`.
template <typename F>
inline float largest(const float* x, Size count, float least, F&& of) {
  float most[LANES];
  for (Size j = 0; j < LANES; j++) most[j] = least;
  Size i = 0;
  for (; i + LANES <= count; i += LANES)
    for (Size j = 0; j < LANES; j++) most[j] = of(x[i + j]) > most[j] ? of(x[i + j]) : most[j];
  for (; i < count; i++) most[0] = of(x[i]) > most[0] ? of(x[i]) : most[0];
  for (Size j = 1; j < LANES; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
  return most[0];
}
