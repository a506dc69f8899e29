// Chapter 06: the learning rate of Eq. (3), with its three parameters
import {el} from './dom.js'
import {range} from './words.js'
import {slider, choice, presets, caption, shape, drawing, axes, line,
        roundTicks} from './live_parts.js'

const BASE = {d_model: 512, warmup: 4000, step: 4000} // the paper's
const LAST = 20000                                    // steps, of the axis
const HEIGHT = 300

function paperLr(step, d_model, warmup) { // Eq. (3), §5.3
  const falling = step**-0.5, rising = step * warmup**-1.5
  return d_model**-0.5 * Math.min(falling, rising)
}

const whole = n => n.toLocaleString('en')
const rate = x => x.toExponential(2)

function curve(d_model, warmup, steps) {
  const all = [...steps, warmup].sort((a, b) => a - b) // the peak is never cut off
  return all.map(step => [step, paperLr(step, d_model, warmup)])
}

function linearAxes(most) {
  const ticks = roundTicks(most)
  const x = {domain: [0, LAST], ticks: [0, 5000, 10000, 15000, 20000]}
  const y = {domain: [0, ticks.at(-1)], ticks}
  return [x, y, range(201).map(i => Math.max(1, 100 * i))]
}

function logAxes() {
  const x = {domain: [1, LAST], ticks: [1, 10, 100, 1000, 10000], isLog: true}
  const y = {domain: [1e-8, 1e-1], ticks: range(8).map(i => 10**(i - 8)), isLog: true}
  return [x, y, range(81).map(i => LAST**(i / 80))]
}

function paint(svg, width, {d_model, warmup, step, isLog}) {
  const peak = paperLr(warmup, d_model, warmup)
  const [x, y, steps] = isLog ? logAxes() : linearAxes(Math.max(peak, 7e-4))
  const tick = n => n ? Number(n.toPrecision(2)).toExponential() : '0'
  Object.assign(x, {name: 'step_num', says: whole})
  Object.assign(y, {name: 'learning rate', says: tick})
  const scales = axes(svg, width, HEIGHT, x, y)
  const lr = paperLr(step, d_model, warmup), {toX, toY} = scales
  svg.append(
    line(curve(BASE.d_model, BASE.warmup, steps), scales, {class: 'before'}),
    line(curve(d_model, warmup, steps), scales, {class: 'curve'}),
    shape('path', {d: `M${toX(step)},${toY(y.domain[0])}V${toY(lr)}`, class: 'guide'}),
    shape('circle', {cx: toX(step), cy: toY(lr), r: 5, class: 'dot'}))
  const words = `The learning rate by step. It climbs to ${rate(peak)} at step `
    + `${whole(warmup)} and falls from there; the paper’s curve is dashed.`
  svg.setAttribute('aria-label', words)
}

function inWords({d_model, warmup, step}) {
  const lr = paperLr(step, d_model, warmup), peak = paperLr(warmup, d_model, warmup)
  const how = step < warmup ? `still climbing, to ${rate(peak)} at step ${whole(warmup)}`
    : step === warmup ? 'the peak, where climb and fall meet'
    : `falling since the peak, ${rate(peak)} at step ${whole(warmup)}`
  return `Step ${whole(step)}: learning rate ${rate(lr)}, ${how}.`
}

function schedule(stage) {
  const state = {...BASE, isLog: false}, says = caption()
  const {svg, draw} = drawing(HEIGHT, (svg, width) => paint(svg, width, state))
  const set = change => {
    Object.assign(state, change)
    width.set(Math.log2(state.d_model))
    warmup.set(state.warmup)
    step.set(state.step)
    draw()
    says.tell(inWords(state))
  }
  const width = slider('d_model',
    {min: 6, max: 12, value: 9, says: x => whole(2**x)}, x => set({d_model: 2**x}))
  const warmup = slider('warmup_steps',
    {min: 100, max: 16000, step: 100, value: BASE.warmup, says: whole},
    x => set({warmup: x}))
  const step = slider('step_num',
    {min: 100, max: LAST, step: 100, value: BASE.step, says: whole}, x => set({step: x}))
  const scaleOf = choice('Axes', [['linear', 'linear'], ['log', 'logarithmic']], 'linear',
    key => set({isLog: key === 'log'}))
  const sliders = [width, warmup, step].map(({node}) => node)
  const controls = el('div', {className: 'live-controls'}, ...sliders)
  const back = presets('Settings', [['The paper’s base model', () => set(BASE)],
    ['Width 64, warm-up 400', () => set({d_model: 64, warmup: 400, step: 400})]])
  stage.append(controls, el('div', {className: 'live-row'}, back, scaleOf), svg, says.node)
  set({})
}

export {schedule, paperLr}
