// Under each token of the translation: the word of the sentence that it looked at most.
// That is not a dictionary but the model's own attention; where it points nowhere, there is
// none.
import {now} from './store.js'
import {layersOf, headsOfLayer} from './parts.js'
import {meanWeights} from './scene.js'
import {wordsOf} from './guess.js'

const CLEAR = 0.2 // of the weight, at least

// One layer below the last, cross-attention looks at what is being translated (chapter 16)
const glossLayer = () => Math.max(1, layersOf('cross').length - 1)

function glosses() { // of each token, or ''
  const {scene} = now, layer = glossLayer()
  if (!scene || scene.isLong || isBlind(scene, layer)) return []
  const heads = headsOfLayer('cross', layer), words = wordsOf(scene.src)
  return scene.tgt.map(({text}, i) => {
    const weights = meanWeights(heads, i), most = Math.max(...weights)
    const word = words.findLast(word => word.first <= weights.indexOf(most))
    const isWord = /[\p{L}\p{N}]/u.test(text) && word.isLetter
    return isWord && most >= CLEAR ? word.text : ''
  })
}

function isBlind({off}, layer) {
  return ['cross', `cross.${layer}`].some(part => off.includes(part))
}

export {glossLayer, glosses}
