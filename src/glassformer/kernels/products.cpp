// Products of rows with a matrix, for writing: few rows wait for memory, so each row of the matrix is read once.
// products.py says what each function computes; the arrays are dense, row after row.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lanes.h"

#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

namespace {

constexpr Size AHEAD = 2048;  // bytes of a matrix that are asked for before they are needed

// Levels plus `zero`, and the step of a row; NaN where a number is not finite, and with it every product.
template <typename Level>
float round_row(const float* x, Size columns, float least, int32_t zero, Level* levels) {
  if (!is_finite(x, columns)) {
    std::fill(levels, levels + columns, Level(zero));
    return std::numeric_limits<float>::quiet_NaN();
  }
  float step = largest(x, columns, 0, [](float number) { return std::fabs(number); }) / 127;
  float factor = 1 / std::max(step, least);
  for (Size i = 0; i < columns; i++) levels[i] = Level(int32_t(std::nearbyint(x[i] * factor)) + zero);
  return step;
}

// ROWS rows times WIDTH rows of the matrix; each sum is made in the same order, however many there are.
template <int ROWS, int WIDTH>
void dots(const float* x, const float* w, Size columns, Size outputs, float* out) {
  Floats sums[ROWS][WIDTH] = {};
  Size i = 0;
  for (; i + LANES <= columns; i += LANES) {
    Floats matrix[WIDTH];
    for (int c = 0; c < WIDTH; c++) {
      __builtin_prefetch(w + c * columns + i + AHEAD / Size(sizeof(float)));
      matrix[c] = lanes(w + c * columns + i);
    }
    for (int r = 0; r < ROWS; r++) {
      const Floats& row = lanes(x + r * columns + i);
      for (int c = 0; c < WIDTH; c++) sums[r][c] += row * matrix[c];
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < WIDTH; c++) {
      float rest = 0;
      for (Size j = i; j < columns; j++) rest += x[r * columns + j] * w[c * columns + j];
      out[r * outputs + c] = sum(sums[r][c]) + rest;
    }
}

// ROWS rows of levels plus 128 times one row of the matrix, in whole numbers. Processors multiply numbers with a sign by
// numbers without: hence the 128, and what it brings too much goes again.
template <int ROWS>
void dots(const uint8_t* x, const int8_t* w, Size columns, int32_t* out) {
  Size i = 0;
  std::fill(out, out + ROWS, 0);
#ifdef __AVX512VNNI__
  constexpr Size BLOCK = sizeof(__m512i);
  __m512i sums[ROWS], shift = _mm512_setzero_si512(), ones = _mm512_set1_epi8(1);
  std::fill(sums, sums + ROWS, _mm512_setzero_si512());
  for (; i + BLOCK <= columns; i += BLOCK) {
    __builtin_prefetch(w + i + AHEAD);
    __m512i matrix = _mm512_loadu_si512(w + i);
    shift = _mm512_dpbusd_epi32(shift, ones, matrix);
    for (int r = 0; r < ROWS; r++)
      sums[r] = _mm512_dpbusd_epi32(sums[r], _mm512_loadu_si512(x + r * columns + i), matrix);
  }
  for (int r = 0; r < ROWS; r++) out[r] = _mm512_reduce_add_epi32(sums[r]) - 128 * _mm512_reduce_add_epi32(shift);
#endif
  for (int r = 0; r < ROWS; r++)
    for (Size j = i; j < columns; j++) out[r] += int16_t(x[r * columns + j] - 128) * int16_t(w[j]);
}

// In a loop of its own: then product and sum are rounded one after the other, as they are in Python.
void add(const float* bias, float* out, Size rows, Size outputs) {
  for (Size r = 0; bias && r < rows; r++)
    for (Size c = 0; c < outputs; c++) out[r * outputs + c] += bias[c];
}

// Call f<N>(first row) for all rows, N at a time.
template <typename F>
void by_rows(Size rows, F&& f) {
  Size r = 0;
  for (; r + 8 <= rows; r += 8) f.template operator()<8>(r);
  if (rows - r >= 4) { f.template operator()<4>(r); r += 4; }
  if (rows - r >= 2) { f.template operator()<2>(r); r += 2; }
  if (rows - r >= 1) f.template operator()<1>(r);
}

}  // namespace

extern "C" void linear(const float* x, const float* w, const float* bias, float* out, Size rows, Size columns,
                       Size outputs, int threads) {
  constexpr Size WIDTH = 4;
  #pragma omp parallel for schedule(static) num_threads(threads) if (rows * columns * outputs > SMALL)
  for (Size c = 0; c < outputs; c += WIDTH) {
    Size width = std::min(WIDTH, outputs - c);
    by_rows(rows, [&]<int ROWS>(Size r) {
      if (width == WIDTH) dots<ROWS, WIDTH>(x + r * columns, w + c * columns, columns, outputs, out + r * outputs + c);
      else for (Size j = c; j < outputs; j++)
        dots<ROWS, 1>(x + r * columns, w + j * columns, columns, outputs, out + r * outputs + j);
    });
  }
  add(bias, out, rows, outputs);
}

extern "C" void linear_int8(const float* x, const int8_t* w, const float* steps, const float* bias, float* out,
                            Size rows, Size columns, Size outputs, float least, int threads) {
  std::vector<uint8_t> levels(rows * columns);
  std::vector<float> step(rows);
  for (Size r = 0; r < rows; r++) step[r] = round_row(x + r * columns, columns, least, 128, &levels[r * columns]);
  #pragma omp parallel for schedule(static) num_threads(threads) if (rows * columns * outputs > SMALL)
  for (Size c = 0; c < outputs; c++)
    by_rows(rows, [&]<int ROWS>(Size r) {
      int32_t sums[ROWS];
      dots<ROWS>(&levels[r * columns], w + c * columns, columns, sums);
      for (int j = 0; j < ROWS; j++)
        out[(r + j) * outputs + c] = float(sums[j]) * step[r + j] * steps[c];
    });
  add(bias, out, rows, outputs);
}

extern "C" void round_rows(const float* x, int8_t* levels, float* steps, Size rows, Size columns, float least,
                           int threads) {
  #pragma omp parallel for schedule(static) num_threads(threads) if (rows * columns > SMALL)
  for (Size r = 0; r < rows; r++) steps[r] = round_row(x + r * columns, columns, least, 0, levels + r * columns);
}

extern "C" void rescale(const int32_t* sums, const float* step, const float* steps, const float* bias, float* out,
                        Size rows, Size outputs, int threads) {
  #pragma omp parallel for schedule(static) num_threads(threads) if (rows * outputs > SMALL)
  for (Size r = 0; r < rows; r++) {
    for (Size c = 0; c < outputs; c++) out[r * outputs + c] = float(sums[r * outputs + c]) * step[r] * steps[c];
    add(bias, out + r * outputs, 1, outputs);
  }
}
