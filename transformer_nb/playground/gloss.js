// Under each token of the translation: the word of the sentence that it looked at most.
// That is not a dictionary but the model's own attention; where it points nowhere, there is
// none.
import {state, now} from './store.js'
import {layersOf, headsOfLayer} from './parts.js'
import {meanWeights} from './scene.js'
import {wordsOf} from './guess.js'

const CLEAR = 0.2 // of the weight, at least

// One layer below the last, cross-attention looks at what is being translated (chapter 16)
const glossLayer = () => Math.max(1, layersOf('cross').length - 1)

function glosses() { // of each token, or ''
  const {scene} = now, layer = glossLayer()
  const isOff = ['cross', `cross.${layer}`].some(part => state.off.includes(part))
  if (!scene || scene.isLong || isOff) return []
  const heads = headsOfLayer('cross', layer), words = wordsOf(scene.src)
  return scene.tgt.map((_, i) => {
    const weights = meanWeights(heads, i), most = Math.max(...weights)
    const word = words.findLast(word => word.first <= weights.indexOf(most))
    return most >= CLEAR && word.isLetter ? word.text : ''
  })
}

export {glosses}
